import type { IncomingMessage, ServerResponse } from 'node:http';
import { Controller, Get, HttpCode, Post, Req, Res } from '@nestjs/common';
import { ApiBody, ApiTags } from '@nestjs/swagger';
import { ApiList } from '../../../../http/api-list.decorator.js';
import { ApiSuccess } from '../../../../http/api-success.decorator.js';
import { sendJsonList } from '../../../../http/json-list.js';
import { AssignRole } from '../../../application/assign-role.use-case.js';
import { CreateRole } from '../../../application/create-role.use-case.js';
import { CreateUser } from '../../../application/create-user.use-case.js';
import { ListRoles } from '../../../application/list-roles.use-case.js';
import { ListUsers } from '../../../application/list-users.use-case.js';
import { UpdateUser } from '../../../application/update-user.use-case.js';
import { IdentityCommand, IdentityQuery } from './identity-operation.decorator.js';
import { AssignRoleDto, CreateRoleDto, CreateUserDto, UpdateUserDto } from './identity.dto.js';
import { JsonBody } from './json-body.pipe.js';
import { NewUserBody } from './new-user-body.pipe.js';

interface Success {
  readonly status: 'success';
  readonly message: string;
}

/** The operations on roles and users (service interface, section 4.3). */
@ApiTags('Identity management')
@Controller('idpManagementBackend')
export class IdentityManagementController {
  constructor(
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
  async assignRole(@JsonBody() { user_id, role_id }: AssignRoleDto): Promise<Success> {
    await this.assignRoleUseCase.execute({ userId: user_id, roleId: role_id });
    return { status: 'success', message: 'Role assigned successfully.' };
  }

  @Post('create-role')
  @HttpCode(201)
  @IdentityCommand('create:roles', 'Create a role', 'invalid-role')
  @ApiBody({ type: CreateRoleDto })
  @ApiSuccess(201, 'Role created successfully.', { id: { name: 'role_id', example: 'role_0198c5a05b1e7c7e8d550c1f5a3e7a10' } })
  async createRole(@JsonBody() { role_name, permissions }: CreateRoleDto): Promise<Success & { role_id: string }> {
    const role_id = await this.createRoleUseCase.execute({ name: role_name, permissions });
    return { status: 'success', role_id, message: 'Role created successfully.' };
  }

  @Post('create-user')
  @HttpCode(201)
  @IdentityCommand('create:users', 'Create a user', 'invalid-user', 'A user with `roles` takes `assign:roles`, too.')
  @ApiBody({ type: CreateUserDto })
  @ApiSuccess(201, 'User created successfully.', {
    id: { name: 'user_id', example: 'embedded|0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10' },
  })
  async createUser(@NewUserBody() { email, name, roles }: CreateUserDto): Promise<Success & { user_id: string }> {
    const user_id = await this.createUserUseCase.execute({ email, name, roleIds: roles });
    return { status: 'success', user_id, message: 'User created successfully.' };
  }

  @Post('update-user')
  @HttpCode(200)
  @IdentityCommand('update:users', "Update a user's information", 'invalid-user-update')
  @ApiBody({ type: UpdateUserDto })
  @ApiSuccess(200, 'User updated successfully.')
  async updateUser(@JsonBody() { user_id, new_name }: UpdateUserDto): Promise<Success> {
    await this.updateUserUseCase.execute({ userId: user_id, newName: new_name });
    return { status: 'success', message: 'User updated successfully.' };
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
