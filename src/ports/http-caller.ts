// Outbound HTTP as an effect needs it: one request, and an honest word on how it ended (page 05).
import type { Disposition } from '../protocol/effect-decision.ts';

export interface HttpRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as JSON unless it is a string; absent for none. */
  readonly body?: unknown;
  readonly mutates: boolean;
}

export interface HttpAnswer {
  readonly status: number;
  /** A small allow-list of response headers, lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Parsed JSON, or the text of anything else. */
  readonly body: unknown;
}

export type HttpResult =
  | { readonly kind: 'done'; readonly answer: HttpAnswer }
  | {
      readonly kind: 'failed';
      readonly disposition: Disposition;
      readonly permanent: boolean;
      readonly code: string;
      readonly message: string;
      readonly adviceMs?: number;
    };

export interface HttpCaller {
  /** Never throws; redirects are not followed, refused hosts are `did_not_happen` for good. */
  call(request: HttpRequest, signal: AbortSignal): Promise<HttpResult>;
}
