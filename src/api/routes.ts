// The route table: one row a route of page 05, its least role, its schemas and its handler.
import type * as v from 'valibot';
import type { Grant, Role } from './api-request.ts';
import type { Handler } from './handler.ts';
import { abandon, answerDoubt, attention, cancel, reopen, resume } from './operator-routes.ts';
import { answerReceipt, getReceipts } from './receipt-routes.ts';
import {
  approvalSchema,
  approvalsQuerySchema,
  approvalsSchema,
  assertSchema,
  attentionSchema,
  caseSchema,
  decisionSchema,
  erasureSchema,
  eventSchema,
  generationSchema,
  heldSchema,
  journalQuerySchema,
  journalSchema,
  memoriesQuerySchema,
  memoriesSchema,
  reasonSchema,
  receiptSchema,
  receiptsQuerySchema,
  receiptsSchema,
  recordedSchema,
  resumeSchema,
  startTurnSchema,
  storedSchema,
  threadSchema,
  turnSchema,
  verdictSchema,
} from './schemas.ts';
import { health, home, openapi } from './service-routes.ts';
import {
  deleteHold,
  getCase,
  getErasure,
  getMemories,
  postErase,
  postReadmit,
  putHold,
} from './subject-routes.ts';
import {
  getJournal,
  getThread,
  getTurn,
  getUndecided,
  startTurn,
  verifyTurnRoute,
} from './turn-routes.ts';
import { decideApproval, getApprovals, postEvent } from './wait-routes.ts';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Path template with `{name}` segments. */
  readonly path: string;
  readonly summary: string;
  /** Roles that may call it; null for everybody, without a token. */
  readonly roles: readonly Role[] | null;
  /** A right beside the role (QA-7). */
  readonly grant?: Grant;
  readonly body?: v.GenericSchema;
  readonly query?: v.GenericSchema;
  readonly answer?: v.GenericSchema;
  readonly handle: Handler;
}

const anyone: readonly Role[] = ['user', 'approver', 'operator', 'admin'];
/** Ruling 23: deciding is a right of its own; an operator has it not. */
const approvers: readonly Role[] = ['approver'];
const admins: readonly Role[] = ['admin'];
const operators: readonly Role[] = ['operator', 'admin'];
const turn = '/v1/threads/{threadId}/turns/{turnId}';

export const routes: readonly Route[] = [
  {
    method: 'POST',
    path: '/v1/threads/{threadId}/turns',
    summary: 'Deliver a turn',
    roles: anyone,
    body: startTurnSchema,
    answer: turnSchema,
    handle: startTurn,
  },
  {
    method: 'GET',
    path: '/v1/threads/{threadId}',
    summary: 'Read a thread',
    roles: anyone,
    answer: threadSchema,
    handle: getThread,
  },
  {
    method: 'GET',
    path: turn,
    summary: 'Read a turn',
    roles: anyone,
    answer: turnSchema,
    handle: getTurn,
  },
  {
    method: 'GET',
    path: `${turn}/journal`,
    summary: 'Read a journal',
    roles: operators,
    query: journalQuerySchema,
    answer: journalSchema,
    handle: getJournal,
  },
  {
    method: 'GET',
    path: `${turn}/undecided`,
    summary: 'List open doubts',
    roles: operators,
    handle: getUndecided,
  },
  {
    method: 'POST',
    path: `${turn}/verify`,
    summary: 'Run a strict pass',
    roles: operators,
    answer: verdictSchema,
    handle: verifyTurnRoute,
  },
  {
    method: 'POST',
    path: `${turn}/cancel`,
    summary: 'Stop a turn',
    roles: operators,
    body: reasonSchema,
    answer: recordedSchema,
    handle: cancel,
  },
  {
    method: 'GET',
    path: '/v1/attention',
    summary: 'What needs a person',
    roles: operators,
    answer: attentionSchema,
    handle: attention,
  },
  {
    method: 'POST',
    path: `${turn}/undecided/{effectKey}`,
    summary: 'Answer a doubt',
    roles: operators,
    grant: 'answer',
    body: assertSchema,
    answer: turnSchema,
    handle: answerDoubt,
  },
  {
    method: 'POST',
    path: `${turn}/reopen`,
    summary: 'Reopen a quarantined turn',
    roles: operators,
    grant: 'reopen',
    body: reasonSchema,
    answer: turnSchema,
    handle: reopen,
  },
  {
    method: 'POST',
    path: `${turn}/abandon`,
    summary: 'Write a quarantined turn off',
    roles: operators,
    grant: 'abandon',
    body: reasonSchema,
    answer: turnSchema,
    handle: abandon,
  },
  {
    method: 'POST',
    path: `${turn}/resume`,
    summary: 'Resume a failed or exhausted turn',
    roles: operators,
    body: resumeSchema,
    answer: turnSchema,
    handle: resume,
  },
  {
    method: 'GET',
    path: '/v1/approvals',
    summary: 'List approvals',
    roles: approvers,
    query: approvalsQuerySchema,
    answer: approvalsSchema,
    handle: getApprovals,
  },
  {
    method: 'POST',
    path: '/v1/approvals/{id}',
    summary: 'Decide an approval',
    roles: approvers,
    body: decisionSchema,
    answer: approvalSchema,
    handle: decideApproval,
  },
  {
    method: 'POST',
    path: '/v1/events',
    summary: 'Publish an event',
    roles: anyone,
    body: eventSchema,
    answer: storedSchema,
    handle: postEvent,
  },
  {
    method: 'GET',
    path: '/v1/receipts',
    summary: 'List receipts',
    roles: operators,
    query: receiptsQuerySchema,
    answer: receiptsSchema,
    handle: getReceipts,
  },
  {
    method: 'POST',
    path: '/v1/receipts/{receiptId}',
    summary: 'Answer a receipt in doubt',
    roles: operators,
    grant: 'answer',
    body: assertSchema,
    answer: receiptSchema,
    handle: answerReceipt,
  },
  {
    method: 'GET',
    path: '/v1/subjects/{subject}/memories',
    summary: 'What is remembered of a subject',
    roles: operators,
    query: memoriesQuerySchema,
    answer: memoriesSchema,
    handle: getMemories,
  },
  {
    method: 'PUT',
    path: '/v1/subjects/{subject}/hold',
    summary: 'Put a legal hold',
    roles: admins,
    body: reasonSchema,
    answer: heldSchema,
    handle: putHold,
  },
  {
    method: 'DELETE',
    path: '/v1/subjects/{subject}/hold',
    summary: 'Lift a legal hold',
    roles: admins,
    answer: heldSchema,
    handle: deleteHold,
  },
  {
    method: 'POST',
    path: '/v1/subjects/{subject}/erase',
    summary: 'Erase a subject',
    roles: admins,
    body: reasonSchema,
    answer: erasureSchema,
    handle: postErase,
  },
  {
    method: 'POST',
    path: '/v1/subjects/{subject}/readmit',
    summary: 'Let an erased subject return',
    roles: admins,
    body: reasonSchema,
    answer: generationSchema,
    handle: postReadmit,
  },
  {
    method: 'GET',
    path: '/v1/subjects/{subject}/erasure',
    summary: 'The certificate of an erasure',
    roles: admins,
    answer: erasureSchema,
    handle: getErasure,
  },
  {
    method: 'GET',
    path: '/v1/cases/{caseId}',
    summary: 'Read a case',
    roles: anyone,
    answer: caseSchema,
    handle: getCase,
  },
  { method: 'GET', path: '/healthz', summary: 'Health', roles: null, handle: health },
  { method: 'GET', path: '/openapi.json', summary: 'This document', roles: null, handle: openapi },
  { method: 'GET', path: '/', summary: 'Where the API is', roles: null, handle: home },
];

/** Routes of page 05 whose machinery is not in this build; they answer 501 after the role check. */
export const routesNotYet: readonly Omit<Route, 'handle' | 'summary'>[] = [];
