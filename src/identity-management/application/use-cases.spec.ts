import { Test } from '@nestjs/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { InMemoryIdentityProvider } from '../../testing/in-memory.identity-provider.js';
import {
  InvalidIdentityValue,
  ProviderUnavailable,
  RoleAlreadyExists,
  RoleNotFound,
  UserAlreadyExists,
  UserNotFound,
} from '../domain/errors.js';
import { AssignRole } from './assign-role.use-case.js';
import { CreateRole } from './create-role.use-case.js';
import { CreateUser } from './create-user.use-case.js';
import { ListRoles } from './list-roles.use-case.js';
import { ListUsers } from './list-users.use-case.js';
import { ProviderDeadline } from './provider-deadline.js';
import { UpdateUser } from './update-user.use-case.js';

const asIs = <Item>(item: Item): Item => item;

describe('the use cases of identity management', () => {
  let identityProvider: InMemoryIdentityProvider;
  let createRole: CreateRole;
  let createUser: CreateUser;
  let updateUser: UpdateUser;
  let assignRole: AssignRole;
  let listRoles: ListRoles;
  let listUsers: ListUsers;
  let close: () => Promise<void>;

  beforeEach(async () => {
    identityProvider = new InMemoryIdentityProvider();
    const module = await Test.createTestingModule({
      providers: [
        ...[CreateRole, CreateUser, UpdateUser, AssignRole, ListRoles, ListUsers],
        { provide: ProviderDeadline, useFactory: () => new ProviderDeadline(identityProvider, 20) },
      ],
    }).compile();
    createRole = module.get(CreateRole);
    createUser = module.get(CreateUser);
    updateUser = module.get(UpdateUser);
    assignRole = module.get(AssignRole);
    listRoles = module.get(ListRoles);
    listUsers = module.get(ListUsers);
    close = () => module.close();
  });
  afterEach(() => close());

  const users = async () => (await listUsers.execute(asIs).next()).value;

  it('create a role whose repeated permissions count only once, and list it', async () => {
    const roleId = await createRole.execute({ name: 'Readers', permissions: ['a:b', 'c:d', 'a:b'] });
    expect((await listRoles.execute(asIs).next()).value).toEqual([{ roleId, name: 'Readers' }]);
    const userId = await createUser.execute({ email: 'ada@example.com', roleIds: [roleId] });
    expect(identityProvider.permissionsOf(userId)).toEqual(['a:b', 'c:d']);
    await expect(createRole.execute({ name: 'Readers', permissions: ['a:b'] })).rejects.toThrow(RoleAlreadyExists);
  });

  it('create a user with the e-mail in lower case, which is also the default name', async () => {
    const userId = await createUser.execute({ email: 'Ada@Example.COM', roleIds: [] });
    expect(await users()).toEqual([{ userId, name: 'ada@example.com', email: 'ada@example.com' }]);
    await expect(createUser.execute({ email: 'ADA@example.com', name: 'Eve', roleIds: [] })).rejects.toThrow(UserAlreadyExists);
    await expect(createUser.execute({ email: 'eve@example.com', roleIds: ['role_x'] })).rejects.toThrow(RoleNotFound);
  });

  it("change a user's name", async () => {
    const userId = await createUser.execute({ email: 'ada@example.com', name: 'Ada', roleIds: [] });
    await updateUser.execute({ userId, newName: 'Grace' });
    expect(await users()).toEqual([{ userId, name: 'Grace', email: 'ada@example.com' }]);
    await expect(updateUser.execute({ userId: 'memory|x', newName: 'Grace' })).rejects.toThrow(UserNotFound);
  });

  it('assign a role, and assign it again without effect', async () => {
    const userId = await createUser.execute({ email: 'ada@example.com', roleIds: [] });
    const roleId = await createRole.execute({ name: 'Readers', permissions: ['a:b'] });
    await assignRole.execute({ userId, roleId });
    await assignRole.execute({ userId, roleId });
    expect(identityProvider.permissionsOf(userId)).toEqual(['a:b']);
    await expect(assignRole.execute({ userId, roleId: 'role_x' })).rejects.toThrow(RoleNotFound);
    await expect(assignRole.execute({ userId: 'memory|x', roleId })).rejects.toThrow(UserNotFound);
  });

  it.each<[string, string, () => Promise<unknown>]>([
    ['a blank role name', 'role name', () => createRole.execute({ name: ' ', permissions: ['a:b'] })],
    ['a role without permissions', 'permissions', () => createRole.execute({ name: 'a', permissions: [] })],
    ['a malformed permission', 'permissions', () => createRole.execute({ name: 'a', permissions: ['a:b', 'ab'] })],
    ['a blank e-mail', 'email', () => createUser.execute({ email: '', roleIds: [] })],
    ['a blank name', 'name', () => createUser.execute({ email: 'a@example.com', name: '', roleIds: [] })],
    ['a name of 256 characters', 'name', () => updateUser.execute({ userId: 'memory|x', newName: 'x'.repeat(256) })],
    ['a name with a control character', 'name', () => updateUser.execute({ userId: 'memory|x', newName: 'a\u0000b' })],
  ])('refuse %s before the provider is called, and name the value: %s', async (_, value, call) => {
    await expect(call()).rejects.toThrow(new InvalidIdentityValue(value));
    expect(identityProvider.lastSignal).toBeUndefined();
  });

  it.each<[string, () => Promise<unknown>]>([
    ['create-role', () => createRole.execute({ name: 'a', permissions: ['a:b'] })],
    ['create-user', () => createUser.execute({ email: 'a@example.com', roleIds: [] })],
    ['update-user', () => updateUser.execute({ userId: 'memory|x', newName: 'x' })],
    ['assign-role', () => assignRole.execute({ userId: 'memory|x', roleId: 'role_x' })],
    ['list-roles', () => listRoles.execute(asIs).next()],
    ['list-users', () => listUsers.execute(asIs).next()],
  ])('%s waits no longer than the time limit, and ends the call', async (_, call) => {
    identityProvider.hang();
    await expect(call()).rejects.toThrow(ProviderUnavailable);
    expect(identityProvider.lastSignal?.aborted).toBe(true);
  });
});
