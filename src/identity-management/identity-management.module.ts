import { ConfigurableModuleBuilder, type DynamicModule, Module } from '@nestjs/common';
import { HttpModule } from '../http/http.module.js';
import { IdentityManagementController } from './adapters/in/http/identity-management.controller.js';
import { JsonBodyReader } from './adapters/in/http/json-body.reader.js';
import { AssignRole } from './application/assign-role.use-case.js';
import { CreateRole } from './application/create-role.use-case.js';
import { CreateUser } from './application/create-user.use-case.js';
import { ListRoles } from './application/list-roles.use-case.js';
import { ListUsers } from './application/list-users.use-case.js';
import { IdentityProvider } from './application/ports/identity-provider.port.js';
import { ProviderDeadline } from './application/provider-deadline.js';
import { UpdateUser } from './application/update-user.use-case.js';
import {
  type IdentityManagementAdapters,
  type IdentityManagementOptions,
  JsonBodyLimits,
} from './identity-management.options.js';

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<IdentityManagementOptions>()
  .setClassMethodName('forRoot')
  .setExtras<IdentityManagementAdapters>({ identityProvider: undefined, authentication: undefined }, withAdapters)
  .build();

function withAdapters(definition: DynamicModule, adapters: IdentityManagementAdapters): DynamicModule {
  const { identityProvider, authentication } = adapters;
  if (!identityProvider || !authentication) {
    throw new Error('IdentityManagementModule needs { identityProvider, authentication }.');
  }
  return {
    ...definition,
    imports: [...(definition.imports ?? []), authentication],
    providers: [...(definition.providers ?? []), { provide: IdentityProvider, ...identityProvider }],
  };
}

/** The six operations on roles and users. Can be used on its own in any Nest application on Express. */
@Module({
  imports: [HttpModule],
  controllers: [IdentityManagementController],
  providers: [
    JsonBodyReader,
    AssignRole,
    CreateRole,
    CreateUser,
    ListRoles,
    ListUsers,
    UpdateUser,
    {
      provide: ProviderDeadline,
      inject: [IdentityProvider, MODULE_OPTIONS_TOKEN],
      useFactory: (provider: IdentityProvider, { providerTimeoutMs }: IdentityManagementOptions) => new ProviderDeadline(provider, providerTimeoutMs),
    },
    { provide: JsonBodyLimits, inject: [MODULE_OPTIONS_TOKEN], useFactory: (options: IdentityManagementOptions) => new JsonBodyLimits(options) },
  ],
  exports: [IdentityProvider],
})
export class IdentityManagementModule extends ConfigurableModuleClass {}
