import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { TokenIssuerOptions } from './token-issuer.js';

export interface EmbeddedIdentityProviderOptions extends TokenIssuerOptions {
  /** The path of DATA_DIR. */
  readonly directory: string;
  /** The secret of the client `admin`. Default: the one in the data directory, which is generated if it is missing. */
  readonly adminSecret?: string | undefined;
  /**
   * Returns the URL of the service that clients use (`{base_url}`), without a trailing slash. Called for each response
   * with the issuer's metadata, because the port may be known only after the service has begun to listen.
   */
  readonly publicUrl: () => string;
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN: EMBEDDED_IDENTITY_OPTIONS } =
  new ConfigurableModuleBuilder<EmbeddedIdentityProviderOptions>().setClassMethodName('forRoot').build();
