import type { DynamicModule, Type } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { IdentityProvider } from './application/ports/identity-provider.port.js';

export interface IdentityManagementOptions {
  /** The time limit for one operation or one page of a list, in milliseconds (default: 9,400). */
  readonly providerTimeoutMs?: number;
  /** The maximum size of a JSON request body (decoded), in bytes (default: 1 MiB). A larger value counts as 1 MiB. */
  readonly maxJsonBytes?: number;
  /** How long a client may pause while sending a JSON body or reading a list, in milliseconds (default: 60,000). */
  readonly idleTimeoutMs?: number;
}

/** The adapters that identity management needs; both are required. */
export interface IdentityManagementAdapters {
  identityProvider: ProviderDefinition<IdentityProvider> | undefined;
  /** A module that exports `AccessTokenVerifier`. */
  authentication: DynamicModule | Type | undefined;
}

const MAX_JSON_BYTES = 1_048_576;

/** The limits for JSON request bodies and lists, with defaults, and with `maxJsonBytes` cut to 1 MiB. */
export class JsonBodyLimits {
  readonly maxJsonBytes: number;
  readonly idleTimeoutMs: number;

  constructor(options: IdentityManagementOptions) {
    this.maxJsonBytes = Math.min(options.maxJsonBytes ?? MAX_JSON_BYTES, MAX_JSON_BYTES);
    this.idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  }
}
