// Routes about the service itself.

import type { ApiResponse } from './api-request.ts';
import { json } from './api-request.ts';
import document from './openapi.json' with { type: 'json' };

export function health(): ApiResponse {
  return json(200, { status: 'ok' });
}

export function openapi(): ApiResponse {
  return json(200, document);
}

export function home(): ApiResponse {
  const body = [
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Turnstone</title>',
    '<body style="font-family:system-ui;max-width:40rem;margin:3rem auto">',
    '<h1>Turnstone</h1><p>The HTTP API is described in <a href="/openapi.json">/openapi.json</a>;',
    ' turns are sent to <code>POST /v1/threads/{threadId}/turns</code>.</p></body></html>',
  ].join('');
  return { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body };
}
