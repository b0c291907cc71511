import { applyDecorators } from '@nestjs/common';
import { ApiBearerAuth, ApiOAuth2 } from '@nestjs/swagger';

/** The names of the OpenAPI document's security schemes: a bearer token, and the OAuth 2 flows that issue one. */
export const SECURITY_SCHEMES = { bearer: 'token', oauth2: 'client' } as const;

/** Documents that an operation needs an access token. */
export const ApiToken = (): MethodDecorator & ClassDecorator =>
  applyDecorators(ApiBearerAuth(SECURITY_SCHEMES.bearer), ApiOAuth2([], SECURITY_SCHEMES.oauth2));
