import { ConfigurableModuleBuilder, Module } from '@nestjs/common';
import { AccessTokenVerifier } from './access-token.js';
import type { AuthenticationOptions } from './authentication.options.js';
import { PassportAccessTokenVerifier } from './passport.access-token-verifier.js';
import { PermissionGuard } from './permission.guard.js';

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<AuthenticationOptions>()
  .setClassMethodName('forRoot')
  .build();

/** Authenticates callers and checks their permissions. */
@Module({
  providers: [
    {
      provide: AccessTokenVerifier,
      inject: [MODULE_OPTIONS_TOKEN],
      useFactory: (options: AuthenticationOptions) => new PassportAccessTokenVerifier(options),
    },
    PermissionGuard,
  ],
  exports: [AccessTokenVerifier, PermissionGuard],
})
export class AuthenticationModule extends ConfigurableModuleClass {}
