import { Get, Header, HttpCode, Inject, Post, Req, UseFilters } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request } from 'express';
import type { JSONWebKeySet } from 'jose';
import { ServiceError } from '../../../../../common/service-error.js';
import { FromAnyOrigin } from '../../../../../http/origin.guard.js';
import { ServiceController } from '../../../../../http/service-controller.decorator.js';
import { clientNetwork } from '../../../../../http/client-network.js';
import { EMBEDDED_IDENTITY_OPTIONS, type EmbeddedIdentityProviderOptions } from '../embedded-identity-provider.options.js';
import { EmbeddedIdentityProvider } from '../embedded.identity-provider.adapter.js';
import { ACCESS_TOKEN_LIFETIME, TokenIssuer } from '../token-issuer.js';
import { ClientAuthentication } from './client-authentication.js';
import { FailedAttempts } from './failed-attempts.js';
import { OAuthError } from './oauth-error.js';
import { OAuthErrorFilter } from './oauth-error.filter.js';
import { readTokenRequest } from './token-request.js';

/** An OAuth 2 issuer for one client and one grant: `admin` with client_credentials (RFC 6749, section 4.4). */
@ApiExcludeController()
@FromAnyOrigin()
@UseFilters(OAuthErrorFilter)
@ServiceController('idp')
export class EmbeddedIssuerController {
  private readonly failedAttempts = new FailedAttempts();

  constructor(
    private readonly tokens: TokenIssuer,
    private readonly clients: ClientAuthentication,
    private readonly provider: EmbeddedIdentityProvider,
    @Inject(EMBEDDED_IDENTITY_OPTIONS) private readonly options: EmbeddedIdentityProviderOptions,
  ) {}

  /** The issuer's metadata (OpenID Connect Discovery 1.0, section 3). */
  @Get('.well-known/openid-configuration')
  metadata() {
    const endpoints = `${this.options.publicUrl()}/idp`;
    return {
      issuer: this.options.issuer(),
      token_endpoint: `${endpoints}/token`,
      jwks_uri: `${endpoints}/jwks`,
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
      response_types_supported: [],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    };
  }

  @Get('jwks')
  jwks(): Promise<JSONWebKeySet> {
    return this.tokens.publicKeySet();
  }

  @Post('token')
  @HttpCode(200)
  @Header('Cache-Control', 'no-store')
  @Header('Pragma', 'no-cache')
  async token(@Req() request: Request) {
    try {
      await this.authorize(request);
      await this.provider.assertAvailable();
      const accessToken = await this.tokens.administratorToken();
      return { access_token: accessToken, token_type: 'Bearer', expires_in: ACCESS_TOKEN_LIFETIME };
    } catch (error) {
      if (error instanceof OAuthError || error instanceof ServiceError) throw error;
      throw new OAuthError('server_error', 'The token could not be issued.', { cause: error });
    }
  }

  private async authorize(request: Request): Promise<void> {
    const parameters = await readTokenRequest(request);
    await this.authenticate(request, parameters);
    const grantType = parameters.get('grant_type');
    if (grantType === undefined) throw new OAuthError('invalid_request', 'grant_type is missing.');
    if (grantType !== 'client_credentials') {
      throw new OAuthError('unsupported_grant_type', 'Only the grant client_credentials is supported.');
    }
  }

  private async authenticate(request: Request, parameters: ReadonlyMap<string, string>): Promise<void> {
    await this.clients.renew();
    const network = clientNetwork(request.ip);
    // The pause is awaited only if the network has to wait: an unconditional await would let simultaneous requests pass
    // before the first wrong secret is counted.
    const pause = this.failedAttempts.pause(network);
    if (pause) {
      await pause;
      await this.clients.renew();
    }
    try {
      this.clients.authenticate(request, parameters);
    } catch (error) {
      if (error instanceof OAuthError && error.code === 'invalid_client') this.failedAttempts.add(network);
      throw error;
    }
  }
}
