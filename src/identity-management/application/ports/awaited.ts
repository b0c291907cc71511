import { ProviderUnavailable } from '../../domain/errors.js';

/** The error for a call whose caller has given up. */
export const noLongerAwaited = (signal: AbortSignal): ProviderUnavailable =>
  new ProviderUnavailable('The caller has given up.', { cause: signal.reason });

/** @throws ProviderUnavailable when the caller of the port has given up. */
export function assertAwaited(signal: AbortSignal): void {
  if (signal.aborted) throw noLongerAwaited(signal);
}
