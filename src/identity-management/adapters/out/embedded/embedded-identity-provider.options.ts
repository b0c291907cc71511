import { ConfigurableModuleBuilder } from '@nestjs/common';
import type { TokenIssuerOptions } from './token-issuer.js';

export interface EmbeddedIdentityProviderOptions extends TokenIssuerOptions {
  readonly directory: string;
  /** The secret of the client `admin`. Default: the one in the data directory, generated if missing. */
  readonly adminSecret?: string | undefined;
  /** The service's URL for clients, without a trailing slash. The port may be known only once the service listens. */
  readonly publicUrl: () => string;
}

export const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN: EMBEDDED_IDENTITY_OPTIONS } =
  new ConfigurableModuleBuilder<EmbeddedIdentityProviderOptions>().setClassMethodName('forRoot').build();
