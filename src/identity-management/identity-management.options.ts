import type { DynamicModule, Type } from '@nestjs/common';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { IdentityProvider } from './application/ports/identity-provider.port.js';

/** The limits of identity management. */
export interface IdentityManagementOptions {
  /** Milliseconds that the provider may stay silent. 9,400 by default. */
  readonly providerTimeoutMs?: number;
  /** Bytes of one JSON body; 1 MiB by default, and at most. */
  readonly maxJsonBytes?: number;
  /** Milliseconds that a client may stay silent in the middle of its request. 60,000 by default. */
  readonly idleTimeoutMs?: number;
}

/** What the identity-management module is made of; both are needed. */
export interface IdentityManagementAdapters {
  /** Where users and roles are. */
  identityProvider: ProviderDefinition<IdentityProvider> | undefined;
  /** A module that exports `AccessTokenVerifier`: whom it believes about who is asking. */
  authentication: DynamicModule | Type | undefined;
}

/** Nothing that an operation takes is nearly as long. */
const MOST_JSON_BYTES = 1_048_576;

/** The limits that hold for a request's body. */
export class JsonLimits {
  readonly maxJsonBytes: number;
  readonly idleTimeoutMs: number;

  constructor(options: IdentityManagementOptions) {
    this.maxJsonBytes = Math.min(options.maxJsonBytes ?? MOST_JSON_BYTES, MOST_JSON_BYTES);
    this.idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  }
}
