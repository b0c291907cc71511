import { ANSWER_WITHIN_MS, TOKEN_CHECK_MS } from '../../common/answer-times.js';
import { ServiceError } from '../../common/service-error.js';
import { withTimeLimit } from '../../common/time-limit.js';
import { ProviderError, ProviderUnavailable } from '../domain/errors.js';
import type { IdentityProvider, ProviderCallOptions } from './ports/identity-provider.port.js';

/** Calls the identity provider with a time limit. The caller gets an error in time even if the adapter hangs. */
export class ProviderDeadline {
  /** @param timeoutMs the time limit of one call, or of one page of a list, in milliseconds (default: 9,400). */
  constructor(
    private readonly provider: IdentityProvider,
    private readonly timeoutMs = ANSWER_WITHIN_MS - TOKEN_CHECK_MS,
  ) {}

  /**
   * @throws ProviderUnavailable when the time limit is over; the call's signal is then aborted too. ProviderError
   * instead of any error of the call that isn't a `ServiceError`.
   */
  call<Result>(call: (provider: IdentityProvider, options: ProviderCallOptions) => Promise<Result>): Promise<Result> {
    const controller = new AbortController();
    return this.inTime(controller, () => call(this.provider, { signal: controller.signal }));
  }

  /**
   * Reads a list, with the time limit for each page. When the reading ends early, ends the provider's iterator with
   * `return`. Aborts the signal at the end.
   *
   * @throws as `call`.
   */
  async *pages<Item, Listed>(
    list: (provider: IdentityProvider, options: ProviderCallOptions) => AsyncIterable<readonly Item[]>,
    toListed: (item: Item) => Listed,
  ): AsyncGenerator<readonly Listed[], void, undefined> {
    const controller = new AbortController();
    const { signal } = controller;
    let iterator: AsyncIterator<readonly Item[]> | undefined;
    const next = () => (iterator ??= list(this.provider, { signal })[Symbol.asyncIterator]()).next();
    let hasEnded = false;
    try {
      for (let page = await this.inTime(controller, next); !page.done; page = await this.inTime(controller, next)) yield page.value.map(toListed);
      hasEnded = true;
    } finally {
      if (!hasEnded) {
        const hangs = signal.aborted;
        // An error while the iterator is being ended is ignored, because the client's answer doesn't depend on it.
        const ended = this.inTime(controller, async () => iterator?.return?.()).catch(() => undefined);
        if (!hangs) await ended;
      }
      controller.abort();
    }
  }

  private inTime<Result>(controller: AbortController, work: () => Promise<Result>): Promise<Result> {
    const silence = (): Error => new ProviderUnavailable(`The identity provider was silent for ${this.timeoutMs} ms.`);
    return withTimeLimit(this.timeoutMs, work, silence, (error) => { controller.abort(error); }).catch((error: unknown) => {
      throw error instanceof ServiceError ? error : new ProviderError('The identity provider failed.', { cause: error });
    });
  }
}
