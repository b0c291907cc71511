import type { PrettyOptions } from 'pino-pretty';

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');

/** The form of log lines on a terminal. The message of a request begins with its method, path, status and duration. */
export const PRETTY = {
  singleLine: true,
  ignore: 'context,requestId,trace_id,method,path,status,ms,uploadId,customerId,kind,reason,aborted',
  messageFormat: ({ msg, requestId, method, path, status, ms, kind, reason, aborted }) => {
    const outcome = aborted ? 'aborted' : text(status);
    const request = [text(method), text(path), outcome, ms === undefined ? '' : `${text(ms)} ms`];
    const why = kind === undefined || kind === reason ? text(kind) : [text(kind), text(reason)].filter(Boolean).join(': ');
    return [...(msg === 'request' ? request : [text(msg)]), why, text(requestId)].filter(Boolean).join(' ');
  },
} as const satisfies PrettyOptions;

/** Replaces the customer ids in a text that quotes paths of uploaded files, as errors of file systems and stores do. */
export const withoutCustomers = (text: string): string => text.replace(/customer_id(?:=|%3D)[^/\s'"`]*/gi, 'customer_id=***');

/**
 * The message of an error, without the customer ids in paths. A SyntaxError's is replaced, since it may quote its
 * input.
 */
export const loggableMessage = (error: Error): string => (error instanceof SyntaxError ? 'Malformed text.' : withoutCustomers(error.message));

/** Logs name, message, code, stack and cause of an error. Other members may contain data of a client or a provider. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, cause } = error;
  const code = 'code' in error ? error.code : undefined;
  const message = loggableMessage(error);
  const stack = withoutCustomers(error.stack?.replace(error.message, () => message) ?? '');
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: describeError(cause) }) };
}

export const LOG_SERIALIZERS = { err: describeError };
