import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { TokenIssuerOptions } from './token-issuer.js';

export interface EmbeddedIdentityProviderOptions extends TokenIssuerOptions {
  /** The path of DATA_DIR. */
  readonly directory: string;
  /**
   * The secret of the client `admin`. Replaces the secret that is generated on first boot and kept in the data
   * directory.
   */
  readonly adminSecret?: string | undefined;
  /**
   * Returns the service's `{base_url}` that clients see, without a trailing slash. Called for each answer, because the
   * service's port may be known only after listening.
   */
  readonly publicUrl: () => string;
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN: EMBEDDED_IDENTITY_OPTIONS } =
  new ConfigurableModuleBuilder<EmbeddedIdentityProviderOptions>().setClassMethodName('forRoot').build();
