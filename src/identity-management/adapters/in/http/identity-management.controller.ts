import type { IncomingMessage, ServerResponse } from 'node:http';
import { Get, HttpCode, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiTags } from '@nestjs/swagger';
import { ApiList } from '../../../../http/api-list.decorator.js';
import { assertPermission } from '../../../../authentication/permission.guard.js';
import { ApiSuccess } from '../../../../http/api-success.decorator.js';
import { sendJsonList } from '../../../../http/json-list.js';
import { sendJson } from '../../../../http/send-json.js';
import { ServiceController } from '../../../../http/service-controller.decorator.js';
import { AssignRole } from '../../../application/assign-role.use-case.js';
import { CreateRole } from '../../../application/create-role.use-case.js';
import { CreateUser } from '../../../application/create-user.use-case.js';
import { ListRoles } from '../../../application/list-roles.use-case.js';
import { ListUsers } from '../../../application/list-users.use-case.js';
import { UpdateUser } from '../../../application/update-user.use-case.js';
import { IdentityCommand, IdentityQuery } from './identity-operation.decorator.js';
import { AssignRoleDto, CreateRoleDto, CreateUserDto, UpdateUserDto } from './identity.dto.js';
import { JsonBodyReader } from './json-body.reader.js';

/** The operations on roles and users (service interface, section 4.3). */
@ApiTags('Identity management')
@ServiceController('idpManagementBackend')
export class IdentityManagementController {
  constructor(
    private readonly bodies: JsonBodyReader,
    private readonly createRoleUseCase: CreateRole,
    private readonly assignRoleUseCase: AssignRole,
    private readonly createUserUseCase: CreateUser,
    private readonly updateUserUseCase: UpdateUser,
    private readonly listRolesUseCase: ListRoles,
    private readonly listUsersUseCase: ListUsers,
  ) {}

  @Post('assign-role')
  @HttpCode(200)
  @IdentityCommand('assign:roles', 'Assign a role to a user', 'invalid-role-assignment')
  @ApiBody({ type: AssignRoleDto })
  @ApiSuccess(200, 'Role assigned successfully.')
  async assignRole(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { user_id, role_id } = await this.bodies.read(request, AssignRoleDto);
    await this.assignRoleUseCase.execute({ userId: user_id, roleId: role_id });
    sendJson(response, { status: 'success', message: 'Role assigned successfully.' });
  }

  @Post('create-role')
  @HttpCode(201)
  @IdentityCommand('create:roles', 'Create a role', 'invalid-role')
  @ApiBody({ type: CreateRoleDto })
  @ApiSuccess(201, 'Role created successfully.', { id: { name: 'role_id', example: 'role_0198c5a05b1e7c7e8d550c1f5a3e7a10' } })
  async createRole(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { role_name, permissions } = await this.bodies.read(request, CreateRoleDto);
    const role_id = await this.createRoleUseCase.execute({ name: role_name, permissions });
    sendJson(response, { status: 'success', role_id, message: 'Role created successfully.' });
  }

  @Post('create-user')
  @HttpCode(201)
  @IdentityCommand('create:users', 'Create a user', 'invalid-user', 'A user with `roles` takes `assign:roles`, too.')
  @ApiBody({ type: CreateUserDto })
  @ApiSuccess(201, 'User created successfully.', {
    id: { name: 'user_id', example: 'embedded|0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10' },
  })
  async createUser(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { email, name, roles } = await this.bodies.read(request, CreateUserDto, (members) => {
      if (mayHaveRoles(members)) assertPermission(request, 'assign:roles');
    });
    const user_id = await this.createUserUseCase.execute({ email, name, roleIds: roles });
    sendJson(response, { status: 'success', user_id, message: 'User created successfully.' });
  }

  @Post('update-user')
  @HttpCode(200)
  @IdentityCommand('update:users', "Update a user's information", 'invalid-user-update')
  @ApiBody({ type: UpdateUserDto })
  @ApiSuccess(200, 'User updated successfully.')
  async updateUser(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { user_id, new_name } = await this.bodies.read(request, UpdateUserDto);
    await this.updateUserUseCase.execute({ userId: user_id, newName: new_name });
    sendJson(response, { status: 'success', message: 'User updated successfully.' });
  }

  @Get('roles')
  @IdentityQuery('read:roles', 'List all roles')
  @ApiList('roles', ['role_id', 'name'])
  roles(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const pages = this.listRolesUseCase.execute(({ roleId, name }) => ({ role_id: roleId, name }));
    return sendJsonList(request, response, 'roles', pages);
  }

  @Get('users')
  @IdentityQuery('read:users', 'List all users')
  @ApiList('users', ['user_id', 'name', 'email'])
  users(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const pages = this.listUsersUseCase.execute(({ userId, name, email }) => ({ user_id: userId, name, email }));
    return sendJsonList(request, response, 'users', pages);
  }
}

/**
 * Whether a new user may get roles, which requires the permission to assign roles. A member `roles` that isn't an array
 * counts as well, unless it is null.
 */
const mayHaveRoles = ({ roles }: Readonly<Record<string, unknown>>): boolean =>
  roles !== undefined && roles !== null && !(Array.isArray(roles) && roles.length === 0);
