// What a route's handler is given.
import type { Runtime } from '../runtime/runtime.ts';
import type { HostBounds } from '../runtime/turn-request.ts';
import type { ApiRequest, ApiResponse, Identity } from './api-request.ts';

export interface ApiHost {
  readonly runtime: Runtime;
  /** What this process allows a pass that answers a call. */
  bounds(): HostBounds;
  /** Ties a pass to the process when its caller is answered first: awaited by the host, never lost. */
  detach(pass: Promise<unknown>): void;
  /** Resolves after `ms`, or sooner when something was committed in this process. */
  pause(ms: number): Promise<void>;
}

export interface Call {
  readonly host: ApiHost;
  readonly request: ApiRequest;
  readonly params: Readonly<Record<string, string>>;
  readonly identity: Identity;
}

export type Handler = (call: Call) => Promise<ApiResponse> | ApiResponse;
