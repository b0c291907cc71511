import type { DynamicModule, Type } from '@nestjs/common';
import type { AccessTokenVerifier } from '../authentication/access-token.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { FileStorage } from './application/ports/file-storage.port.js';

/** The limits of uploads. */
export interface IngestionOptions {
  /** Bytes of one file. 5 GiB by default. */
  readonly maxUploadBytes?: number;
  /** Bytes of one JSON body, or of a form's `additional_data`. 10 MiB by default. */
  readonly maxJsonBytes?: number;
  /** Milliseconds that a client may stay silent in the middle of its request. 60,000 by default. */
  readonly idleTimeoutMs?: number;
}

/** What the ingestion module is made of. */
export interface IngestionAdapters {
  /** Where uploads go. Needed. */
  fileStorage: ProviderDefinition<FileStorage> | undefined;
  /** A module that exports `AccessTokenVerifier`: uploads then need a token. Without it anybody may upload. */
  authentication: DynamicModule | Type | undefined;
}

/** The limits that hold for a request's body. */
export class UploadLimits {
  readonly maxUploadBytes: number;
  readonly maxJsonBytes: number;
  readonly idleTimeoutMs: number;

  constructor(options: IngestionOptions) {
    this.maxUploadBytes = options.maxUploadBytes ?? 5_368_709_120;
    this.maxJsonBytes = options.maxJsonBytes ?? 10_485_760;
    this.idleTimeoutMs = options.idleTimeoutMs ?? 60_000;
  }
}

/** Who checks the tokens of those who upload; nobody where uploads are open to all. */
export class UploadAuthorization {
  constructor(readonly accessTokens?: AccessTokenVerifier) {}
}
