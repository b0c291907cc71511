import { applyDecorators } from '@nestjs/common';
import { ApiBearerAuth, ApiOAuth2 } from '@nestjs/swagger';

export const SECURITY_SCHEMES = { bearer: 'token', oauth2: 'client' } as const;

/** Documents that an operation needs an access token. */
export const ApiToken = (): MethodDecorator & ClassDecorator =>
  applyDecorators(ApiBearerAuth(SECURITY_SCHEMES.bearer), ApiOAuth2([], SECURITY_SCHEMES.oauth2));
