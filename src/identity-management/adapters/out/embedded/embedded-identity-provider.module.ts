import { Logger, Module } from '@nestjs/common';
import { HttpModule } from '../../../../http/http.module.js';
import { assertAdminSecret, renewedAdminSecret } from './admin-secret.js';
import {
  ConfigurableModuleClass,
  EMBEDDED_IDENTITY_OPTIONS,
  type EmbeddedIdentityProviderOptions,
} from './embedded-identity-provider.options.js';
import { EmbeddedIdentityProvider } from './embedded.identity-provider.adapter.js';
import { ClientAuthentication } from './http/client-authentication.js';
import { EmbeddedIssuerController } from './http/embedded-issuer.controller.js';
import type { AvailableStore } from './renewed-file.js';
import { renewedSigningKeys } from './signing-keys.js';
import { TokenIssuer } from './token-issuer.js';

const availableStore = (provider: EmbeddedIdentityProvider): AvailableStore => ({
  assertAvailable: () => provider.assertAvailable(),
  logger: new Logger(EmbeddedIdentityProvider.name),
});

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
        const keys = await renewedSigningKeys(options.directory, availableStore(provider));
        return new TokenIssuer(() => keys.current(), (userId) => provider.permissionsOf(userId), options);
      },
    },
    {
      provide: ClientAuthentication,
      inject: [EmbeddedIdentityProvider, EMBEDDED_IDENTITY_OPTIONS],
      useFactory: async (provider: EmbeddedIdentityProvider, { directory, adminSecret }: EmbeddedIdentityProviderOptions) => {
        if (adminSecret !== undefined) {
          assertAdminSecret(adminSecret);
          return new ClientAuthentication(() => Promise.resolve(adminSecret));
        }
        const secret = await renewedAdminSecret(directory, availableStore(provider));
        return new ClientAuthentication(() => secret.current());
      },
    },
  ],
  exports: [EmbeddedIdentityProvider, TokenIssuer],
})
export class EmbeddedIdentityProviderModule extends ConfigurableModuleClass {}
