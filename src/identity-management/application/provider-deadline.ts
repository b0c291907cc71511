import { ServiceError } from '../../common/service-error.js';
import { ProviderError, ProviderUnavailable } from '../domain/errors.js';
import type { IdentityManagementLimits } from './identity-management.options.js';
import type { ProviderCallOptions } from './ports/identity-provider.port.js';

/**
 * Calls the identity provider and waits at most for the limit, even if an adapter hangs.
 *
 * @throws ProviderUnavailable when the time is over. The call's signal is then aborted. ProviderError in place of any
 * error that isn't a ServiceError.
 */
export function callProvider<Result>(
  limits: IdentityManagementLimits,
  call: (options: ProviderCallOptions) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  return withinDeadline(limits, controller, () => call({ signal: controller.signal }));
}

/**
 * Reads a list of the identity provider. The limit applies to each page separately. Returning the iterator returns the
 * provider's iterator and aborts the signal.
 *
 * @throws as `callProvider`.
 */
export async function* providerPages<Item>(
  limits: IdentityManagementLimits,
  list: (options: ProviderCallOptions) => AsyncIterable<readonly Item[]>,
): AsyncGenerator<readonly Item[], void, undefined> {
  const controller = new AbortController();
  const { signal } = controller;
  const iterator = await withinDeadline(limits, controller, () => list({ signal })[Symbol.asyncIterator]());
  const next = () => withinDeadline(limits, controller, () => iterator.next());
  try {
    for (let page = await next(); !page.done; page = await next()) yield page.value;
  } finally {
    const hangs = signal.aborted;
    // Whether the provider's iterator ends well doesn't affect the answer.
    const ended = withinDeadline(limits, controller, () => iterator.return?.()).catch(() => undefined);
    if (!hangs) await ended;
    controller.abort();
  }
}

function withinDeadline<Result>(
  { providerTimeoutMs }: IdentityManagementLimits,
  controller: AbortController,
  work: () => Result | PromiseLike<Result>,
): Promise<Result> {
  return new Promise<Result>((resolve, reject) => {
    const timer = setTimeout(() => {
      const silent = new ProviderUnavailable(`The identity provider was silent for ${providerTimeoutMs} ms.`);
      reject(silent);
      controller.abort(silent);
    }, providerTimeoutMs);
    // The handlers stay attached after the deadline, so that a late rejection isn't unhandled.
    void new Promise<Result>((settle) => {
      settle(work());
    })
      .then(resolve, (error: unknown) => {
        reject(error instanceof ServiceError ? error : new ProviderError('The identity provider failed.', { cause: error }));
      })
      .finally(() => {
        clearTimeout(timer);
      });
  });
}
