import type { IncomingMessage, ServerResponse } from 'node:http';
import { Get, HttpCode, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiTags } from '@nestjs/swagger';
import { assertPermission } from '../../../../authentication/permission.guard.js';
import { ApiAnswer, ApiSuccess } from '../../../../http/api-answer.decorator.js';
import { sendJsonList } from '../../../../http/json-list.js';
import { sendJson } from '../../../../http/exchange.js';
import { ServiceController } from '../../../../http/service-controller.decorator.js';
import { AssignRole } from '../../../application/assign-role.use-case.js';
import { CreateRole } from '../../../application/create-role.use-case.js';
import { CreateUser } from '../../../application/create-user.use-case.js';
import { ListRoles } from '../../../application/list-roles.use-case.js';
import { ListUsers } from '../../../application/list-users.use-case.js';
import { UpdateUser } from '../../../application/update-user.use-case.js';
import { JsonBodyLimits } from '../../../identity-management.options.js';
import { IdentityCommand, IdentityQuery } from './identity-operation.decorator.js';
import { ROLE_ID, RoleCreated, RoleList, USER_ID, UserCreated, UserList } from './identity-answers.dto.js';
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
    private readonly limits: JsonBodyLimits,
  ) {}

  @Post('assign-role')
  @HttpCode(200)
  @IdentityCommand('assign:roles', 'invalid-role-assignment', { operationId: 'assignRole', summary: 'Assign a role to a user' })
  @ApiBody({ type: AssignRoleDto })
  @ApiSuccess(200, 'Role assigned successfully.')
  async assignRole(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { user_id, role_id } = await this.bodies.read(request, AssignRoleDto);
    await this.assignRoleUseCase.execute({ userId: user_id, roleId: role_id });
    sendJson(response, { status: 'success', message: 'Role assigned successfully.' });
  }

  @Post('create-role')
  @HttpCode(201)
  @IdentityCommand('create:roles', 'invalid-role', { operationId: 'createRole', summary: 'Create a role' })
  @ApiBody({ type: CreateRoleDto })
  @ApiSuccess(201, 'Role created successfully.', { body: RoleCreated, ids: { role_id: ROLE_ID.example } })
  async createRole(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { role_name, permissions } = await this.bodies.read(request, CreateRoleDto);
    const role_id = await this.createRoleUseCase.execute({ name: role_name, permissions });
    sendJson(response, { status: 'success', role_id, message: 'Role created successfully.' });
  }

  @Post('create-user')
  @HttpCode(201)
  @IdentityCommand('create:users', 'invalid-user', { operationId: 'createUser', summary: 'Create a user', note: 'With `roles`, it also needs `assign:roles`.' })
  @ApiBody({ type: CreateUserDto })
  @ApiSuccess(201, 'User created successfully.', { body: UserCreated, ids: { user_id: USER_ID.example } })
  async createUser(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { email, name, roles } = await this.bodies.read(request, CreateUserDto, (members) => {
      if (mayHaveRoles(members)) assertPermission(request, 'assign:roles');
    });
    const user_id = await this.createUserUseCase.execute({ email, name, roleIds: roles });
    sendJson(response, { status: 'success', user_id, message: 'User created successfully.' });
  }

  @Post('update-user')
  @HttpCode(200)
  @IdentityCommand('update:users', 'invalid-user-update', { operationId: 'updateUser', summary: "Update a user's information" })
  @ApiBody({ type: UpdateUserDto })
  @ApiSuccess(200, 'User updated successfully.')
  async updateUser(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const { user_id, new_name } = await this.bodies.read(request, UpdateUserDto);
    await this.updateUserUseCase.execute({ userId: user_id, newName: new_name });
    sendJson(response, { status: 'success', message: 'User updated successfully.' });
  }

  @Get('roles')
  @IdentityQuery('read:roles', { operationId: 'listRoles', summary: 'List all roles' })
  @ApiAnswer(200, 'All roles', { body: RoleList })
  roles(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const pages = this.listRolesUseCase.execute(({ roleId, name }) => ({ role_id: roleId, name }));
    return sendJsonList(request, response, 'roles', pages, this.limits.idleTimeoutMs);
  }

  @Get('users')
  @IdentityQuery('read:users', { operationId: 'listUsers', summary: 'List all users' })
  @ApiAnswer(200, 'All users', { body: UserList })
  users(@Req() request: IncomingMessage, @Res() response: ServerResponse): Promise<void> {
    const pages = this.listUsersUseCase.execute(({ userId, name, email }) => ({ user_id: userId, name, email }));
    return sendJsonList(request, response, 'users', pages, this.limits.idleTimeoutMs);
  }
}

const mayHaveRoles = ({ roles }: Readonly<Record<string, unknown>>): boolean =>
  roles !== undefined && roles !== null && !(Array.isArray(roles) && roles.length === 0);
