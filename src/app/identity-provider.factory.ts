import type { DynamicModule, Type } from '@nestjs/common';
import { AuthenticationModule } from '../authentication/authentication.module.js';
import type { ProviderDefinition } from '../common/provider-definition.js';
import type { AdapterModule } from '../configuration/adapter-module.js';
import type { Auth0Environment, KeycloakEnvironment } from '../configuration/identity.js';
import type { Environment } from '../configuration/service.js';
import { EmbeddedIdentityProvider } from '../identity-management/adapters/out/embedded/embedded.identity-provider.adapter.js';
import { EmbeddedIdentityProviderModule } from '../identity-management/adapters/out/embedded/embedded-identity-provider.module.js';
import { TokenIssuer } from '../identity-management/adapters/out/embedded/token-issuer.js';
import { realmUrl } from '../identity-management/adapters/out/keycloak/realm-url.js';
import type { IdentityProvider } from '../identity-management/application/ports/identity-provider.port.js';
import { MeasuredIdentityProvider } from '../operations/metrics/measured-calls.js';
import { Metrics } from '../operations/metrics/metrics.js';
import { ServiceAddress } from '../operations/service-address.js';
import type { ProvidedReplacement } from './replacement.js';
import { contextOf, createAdapter, type IdentityProviderAdapter, loadAdapter } from './team-adapter.js';

export interface ChosenIdentityProvider {
  readonly imports: DynamicModule[];
  readonly identityProvider: ProviderDefinition<IdentityProvider>;
  readonly authentication: DynamicModule | Type;
}

export interface ReplacedIdentity {
  readonly provider?: ProvidedReplacement | undefined;
  readonly authentication?: DynamicModule | Type | undefined;
}

/**
 * Chooses the identity provider and the check of its access tokens: for each, the replacement if there is one,
 * otherwise what IDENTITY_PROVIDER selects.
 */
export function identityProviderFor(environment: Environment, replaced: ReplacedIdentity = {}): ChosenIdentityProvider {
  const selected = selectedBy(environment);
  const chosen = replaced.provider ? { ...selected, ...replacedBy(replaced.provider) } : selected;
  return { ...chosen, authentication: replaced.authentication ?? selected.authentication };
}

const replacedBy = ({ module, token }: ProvidedReplacement): Pick<ChosenIdentityProvider, 'imports' | 'identityProvider'> => ({
  imports: [module],
  identityProvider: {
    inject: [token, Metrics],
    useFactory: (provider: IdentityProvider, metrics: Metrics) => new MeasuredIdentityProvider(provider, metrics, 'provider'),
  },
});

function selectedBy(environment: Environment): ChosenIdentityProvider {
  const { identityProvider } = environment;
  switch (identityProvider.adapter) {
    case 'embedded':
      return embedded(environment);
    case 'keycloak':
      return keycloak(identityProvider, environment);
    case 'auth0':
      return auth0(identityProvider, environment);
    case 'module':
      return fromModule(identityProvider, environment);
  }
}

const METHODS = ['createRole', 'createUser', 'assignRole', 'updateUser', 'listRoles', 'listUsers', 'checkHealth'] as const;

function fromModule(module: AdapterModule, environment: Environment): ChosenIdentityProvider {
  const context = contextOf(environment);
  return {
    imports: [],
    identityProvider: {
      inject: [Metrics],
      useFactory: async (metrics: Metrics) => new MeasuredIdentityProvider(await createAdapter(module, await loadAdapter<IdentityProviderAdapter<never>>(module), context, METHODS), metrics),
    },
    authentication: AuthenticationModule.forRootAsync({
      useFactory: async () => {
        const { definition, settings } = await loadAdapter<IdentityProviderAdapter<never>>(module);
        return definition.authentication(settings, context);
      },
    }),
  };
}

function auth0(tenant: Auth0Environment, { oidc: { issuer, audience }, swaggerUiClientId }: Environment): ChosenIdentityProvider {
  const options = { ...tenant, audience, invitationClientId: tenant.invitationMail ? (swaggerUiClientId ?? tenant.clientId) : undefined };
  return {
    imports: [],
    identityProvider: {
      inject: [Metrics],
      useFactory: async (metrics: Metrics) => {
        const { Auth0IdentityProvider } = await import('../identity-management/adapters/out/auth0/auth0.identity-provider.adapter.js');
        return new MeasuredIdentityProvider(new Auth0IdentityProvider(options), metrics);
      },
    },
    authentication: AuthenticationModule.forRoot({
      issuer: issuer ?? `${tenant.url}/`,
      audience,
      keySet: { url: `${tenant.url}/.well-known/jwks.json` },
    }),
  };
}

function keycloak(connection: KeycloakEnvironment, { oidc: { issuer, audience }, swaggerUiClientId }: Environment): ChosenIdentityProvider {
  const invitationMail = connection.invitationMail ? { clientId: swaggerUiClientId } : undefined;
  const options = { ...connection, audience, issuer, invitationMail, swaggerUiClientId };
  return {
    imports: [],
    identityProvider: {
      inject: [Metrics],
      useFactory: async (metrics: Metrics) => {
        const { KeycloakIdentityProvider } = await import('../identity-management/adapters/out/keycloak/keycloak.identity-provider.adapter.js');
        return new MeasuredIdentityProvider(new KeycloakIdentityProvider(options), metrics);
      },
    },
    authentication: AuthenticationModule.forRoot({
      issuer: issuer ?? realmUrl(connection),
      audience,
      keySet: { url: `${realmUrl(connection)}/protocol/openid-connect/certs` },
    }),
  };
}

function embedded({ dataDirectory, embeddedAdminSecret, oidc }: Environment): ChosenIdentityProvider {
  const issuerOf = (address: ServiceAddress) => (): string => oidc.issuer ?? `${address.baseUrl}/idp`;
  const provider = EmbeddedIdentityProviderModule.forRootAsync({
    inject: [ServiceAddress],
    useFactory: (address: ServiceAddress) => ({
      directory: dataDirectory,
      adminSecret: embeddedAdminSecret,
      issuer: issuerOf(address),
      publicUrl: () => address.baseUrl,
      audience: oidc.audience,
    }),
  });
  return {
    imports: [provider],
    identityProvider: {
      inject: [EmbeddedIdentityProvider, Metrics],
      useFactory: (inner: EmbeddedIdentityProvider, metrics: Metrics) => new MeasuredIdentityProvider(inner, metrics, 'provider'),
    },
    authentication: AuthenticationModule.forRootAsync({
      imports: [provider],
      inject: [EmbeddedIdentityProvider, TokenIssuer, ServiceAddress],
      useFactory: (users: EmbeddedIdentityProvider, tokens: TokenIssuer, address: ServiceAddress) => {
        // The issuer and audience are recorded for the command `token`, which issues tokens in a process of its own.
        address.onAnnounced(() => users.recordClaims({ issuer: issuerOf(address)(), audience: oidc.audience }));
        return { issuer: issuerOf(address), audience: oidc.audience, keySet: { load: () => tokens.publicKeySet() } };
      },
    }),
  };
}
