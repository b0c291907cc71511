import { ProviderUnavailable } from '../../domain/errors.js';

/** The error for a call to the identity provider whose caller no longer waits for the result. */
export const noLongerAwaited = (signal: AbortSignal): ProviderUnavailable =>
  new ProviderUnavailable('The caller has given up.', { cause: signal.reason });
