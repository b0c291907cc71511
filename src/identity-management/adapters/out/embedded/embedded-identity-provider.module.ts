import { Logger, Module } from '@nestjs/common';
import { HttpModule } from '../../../../http/http.module.js';
import { loadAdminSecret } from './admin-secret.js';
import {
  ConfigurableModuleClass,
  EMBEDDED_IDENTITY_OPTIONS,
  type EmbeddedIdentityProviderOptions,
} from './embedded-identity-provider.options.js';
import { EmbeddedIdentityProvider } from './embedded.identity-provider.adapter.js';
import { ClientAuthentication } from './http/client-authentication.js';
import { EmbeddedIssuerController } from './http/embedded-issuer.controller.js';
import { RenewedSigningKeys } from './signing-keys.js';
import { TokenIssuer } from './token-issuer.js';

/** The embedded identity provider and its token issuer at `/idp`. Holds the lock `identity.lock` of DATA_DIR. */
@Module({
  imports: [HttpModule],
  controllers: [EmbeddedIssuerController],
  providers: [
    {
      provide: EmbeddedIdentityProvider,
      inject: [EMBEDDED_IDENTITY_OPTIONS],
      useFactory: ({ directory }: EmbeddedIdentityProviderOptions) => EmbeddedIdentityProvider.open(directory),
    },
    {
      provide: TokenIssuer,
      inject: [EmbeddedIdentityProvider, EMBEDDED_IDENTITY_OPTIONS],
      useFactory: async (provider: EmbeddedIdentityProvider, options: EmbeddedIdentityProviderOptions) => {
        const keys = await RenewedSigningKeys.load(options.directory, () => provider.assertAvailable(), new Logger(TokenIssuer.name));
        return new TokenIssuer(() => keys.current(), (userId) => provider.permissionsOf(userId), options);
      },
    },
    {
      provide: ClientAuthentication,
      inject: [EMBEDDED_IDENTITY_OPTIONS],
      useFactory: async ({ directory, adminSecret }: EmbeddedIdentityProviderOptions) =>
        new ClientAuthentication(adminSecret ?? (await loadAdminSecret(directory))),
    },
  ],
  exports: [EmbeddedIdentityProvider, TokenIssuer],
})
export class EmbeddedIdentityProviderModule extends ConfigurableModuleClass {}
