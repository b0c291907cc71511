import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import {
  ProviderUnavailable,
  RoleAlreadyExists,
  RoleNotFound,
  UserAlreadyExists,
  UserNotFound,
} from '../identity-management/domain/errors.js';
import { MAX_PERMISSIONS, MAX_ROLE_NAME_LENGTH, newRole, type Role } from '../identity-management/domain/role.js';
import { MAX_EMAIL_LENGTH, MAX_USER_NAME_LENGTH, type NewUser, type User } from '../identity-management/domain/user.js';

export interface IdentityProviderSetting {
  readonly provider: IdentityProvider;
  /** An id in the provider's form that no user has. */
  readonly unknownUserId: string;
  /** An id in the provider's form that no role has. */
  readonly unknownRoleId: string;
  /** A number of items that takes more than one page of the adapter. Default: 501. */
  readonly moreThanOnePage?: number;
  /** The most calls made at once, for a provider that allows only a few. Default: 50 or 10, by test. */
  readonly simultaneousCalls?: number;
  /** A name of 255 characters. Default: the one that is longest in UTF-16 and UTF-8. */
  readonly longestName?: string;
  /** Returns the provider as it is after a restart. An adapter that keeps no state can return itself. */
  reopen(): Promise<IdentityProvider>;
  /** The permissions that a user's roles give according to the provider itself, in any order. */
  permissionsOf(userId: string): Promise<readonly string[]>;
  tearDown(): void | Promise<void>;
}

const USER_ID = /^[A-Za-z0-9._-]+\|[^\s|]+$/u;

const ODD_NAMES = [
  'a',
  '  spaces around are kept ',
  'Jürgen Müller-Lüdenscheidt',
  'Ame\u0301lie',
  '👩‍👩‍👧‍👦 family 🇪🇺',
  'שלום עולם',
  'مرحبا بالعالم ١٢٣',
  '日本語の名前',
  `O'Brien "Bob" <b>;--`,
  `'); DROP TABLE users; --`,
  '100% %41 %00 %zz ${x} {{y}} \\u0041 \\ / ? # & = + *',
  '\u200b\u202eevil\u2066',
  'null',
  '[object Object]',
  '__proto__',
];

const MALFORMED_IDS = [
  '',
  ' ',
  'x'.repeat(10_000),
  '|',
  'embedded|',
  'other|4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
  '4b1b7a2e-6c2f-4d58-9d6a-0a8a3a4f9a10',
  "' OR '1'='1",
  '%',
  '../../admin',
  'a/b?c=d#e',
  'null',
  '__proto__',
  '😀',
  '\ud800',
];

/**
 * The tests that every identity provider must pass, one `it` for each promise of the port.
 *
 * @param setUp returns the setting of a test. Called before each test. Other users and roles can exist already.
 */
export function identityProviderContract(name: string, setUp: () => Promise<IdentityProviderSetting>): void {
  describe(`IdentityProvider contract: ${name}`, () => {
    let setting: IdentityProviderSetting;
    let provider: IdentityProvider;
    const options: ProviderCallOptions = { signal: new AbortController().signal };

    beforeEach(async () => {
      setting = await setUp();
      provider = setting.provider;
    });
    afterEach(() => setting.tearDown());

    const unique = (): string => randomUUID().replaceAll('-', '');
    const someUser = (user: Partial<NewUser> = {}): NewUser => ({ email: `${unique()}@example.com`, name: 'Ada', roleIds: [], ...user });
    const someRole = (permissions: readonly string[] = ['read:users']): Promise<string> =>
      provider.createRole(newRole(`role ${unique()}`, permissions), options);
    const users = (from = provider): Promise<User[]> => allOf(from.listUsers(options));
    const roles = (from = provider): Promise<Role[]> => allOf(from.listRoles(options));
    const longestName = (): string => setting.longestName ?? '😀'.repeat(MAX_USER_NAME_LENGTH);
    const permissionsOf = async (userId: string): Promise<string[]> => [...(await setting.permissionsOf(userId))].sort();

    describe('createRole', () => {
      it('gives each role its own id, and lists the role with its id and name', async () => {
        const [first, second] = [`a ${unique()}`, `b ${unique()}`];
        const firstId = await provider.createRole(newRole(first, ['read:users']), options);
        const secondId = await provider.createRole(newRole(second, ['read:users']), options);
        expect(firstId).toMatch(/^\S+$/);
        expect(secondId).not.toBe(firstId);
        const listed = await roles();
        expect(listed).toContainEqual({ roleId: firstId, name: first });
        expect(listed).toContainEqual({ roleId: secondId, name: second });
      });

      it('rejects a name that is in use, and leaves the existing role unchanged', async () => {
        const role = newRole(`role ${unique()}`, ['read:users']);
        const roleId = await provider.createRole(role, options);
        await expect(provider.createRole(newRole(role.name, ['read:roles']), options)).rejects.toThrow(RoleAlreadyExists);
        expect((await roles()).filter(({ name }) => name === role.name)).toEqual([{ roleId, name: role.name }]);
        const userId = await provider.createUser(someUser({ roleIds: [roleId] }), options);
        expect(await permissionsOf(userId)).toEqual(['read:users']);
      });

      it('compares names as text: a difference in case, spaces or Unicode normalization makes another name', async () => {
        const name = `Rôle ${unique()}`;
        const variants = [name, name.toLowerCase(), `${name} `, name.normalize('NFD')];
        for (const variant of variants) await provider.createRole(newRole(variant, ['read:users']), options);
        const names = (await roles()).map((role) => role.name);
        expect(names).toEqual(expect.arrayContaining(variants));
      });

      it('lets exactly one of many simultaneous calls create a role of the same name', async () => {
        const role = newRole(`role ${unique()}`, ['read:users']);
        const results = await Promise.allSettled(Array.from({ length: setting.simultaneousCalls ?? 50 }, () => provider.createRole(role, options)));
        expectOneWinner(results, RoleAlreadyExists);
        expect((await roles()).filter(({ name }) => name === role.name)).toHaveLength(1);
      });

      it('stores all 256 permissions of a role', async () => {
        const permissions = Array.from({ length: MAX_PERMISSIONS }, (_, index) => `do.${index}-x_*:${'s/:.*-_'.repeat(20)}${index}`);
        const userId = await provider.createUser(someUser({ roleIds: [await someRole(permissions)] }), options);
        expect(await permissionsOf(userId)).toEqual([...permissions].sort());
      });

      it.each(labelled([...ODD_NAMES, '😀'.repeat(MAX_ROLE_NAME_LENGTH - 33)]))('accepts the odd but valid name %s', async (_, odd) => {
        const role = newRole(`${odd} ${unique()}`, ['read:users']);
        const roleId = await provider.createRole(role, options);
        expect((await roles()).find((listed) => listed.roleId === roleId)).toEqual({ roleId, name: role.name });
      });
    });

    describe('createUser', () => {
      it('gives each user their own id `<provider_prefix>|<opaque_id>`, and lists the user with it', async () => {
        const [ada, bob] = [someUser({ name: 'Ada' }), someUser({ name: 'Bob' })];
        const adaId = await provider.createUser(ada, options);
        const bobId = await provider.createUser(bob, options);
        expect(adaId).toMatch(USER_ID);
        expect(bobId).toMatch(USER_ID);
        expect(bobId).not.toBe(adaId);
        const listed = await users();
        expect(listed).toContainEqual({ userId: adaId, name: 'Ada', email: ada.email });
        expect(listed).toContainEqual({ userId: bobId, name: 'Bob', email: bob.email });
      });

      it('gives the user their roles, all of them and no others', async () => {
        await someRole(['other:role']);
        const roleIds = [await someRole(['a:1', 'b:2']), await someRole(['b:2', 'c:3'])];
        const userId = await provider.createUser(someUser({ roleIds }), options);
        expect(await permissionsOf(userId)).toEqual(['a:1', 'b:2', 'c:3']);
        const without = await provider.createUser(someUser(), options);
        expect(await permissionsOf(without)).toEqual([]);
      });

      it('rejects an e-mail that is in use, and leaves the existing user unchanged', async () => {
        const user = someUser();
        const userId = await provider.createUser(user, options);
        await expect(provider.createUser({ ...user, name: 'Eve' }, options)).rejects.toThrow(UserAlreadyExists);
        expect((await users()).filter(({ email }) => email === user.email)).toEqual([{ userId, name: 'Ada', email: user.email }]);
      });

      it('lets exactly one of many simultaneous calls create a user with the same e-mail', async () => {
        const user = someUser({ roleIds: [await someRole()] });
        const results = await Promise.allSettled(Array.from({ length: setting.simultaneousCalls ?? 50 }, () => provider.createUser(user, options)));
        expectOneWinner(results, UserAlreadyExists);
        expect((await users()).filter(({ email }) => email === user.email)).toHaveLength(1);
      });

      it('leaves no user behind and the e-mail free when one of the roles is unknown', async () => {
        const user = someUser({ roleIds: [await someRole(), setting.unknownRoleId, await someRole()] });
        await expect(provider.createUser(user, options)).rejects.toThrow(RoleNotFound);
        expect((await users()).some(({ email }) => email === user.email)).toBe(false);
        await expect(provider.createUser({ ...user, roleIds: [] }, options)).resolves.toMatch(USER_ID);
      });

      it.each(labelled(MALFORMED_IDS))('treats the malformed role id %s as unknown', async (_, roleId) => {
        const user = someUser({ roleIds: [roleId] });
        await expect(provider.createUser(user, options)).rejects.toThrow(RoleNotFound);
        await expect(provider.createUser({ ...user, roleIds: [] }, options)).resolves.toMatch(USER_ID);
      });

      it.each(labelled(ODD_NAMES))('accepts the odd but valid name %s', async (_, odd) => {
        const userId = await provider.createUser(someUser({ name: odd }), options);
        expect((await users()).find((user) => user.userId === userId)?.name).toBe(odd);
      });

      it(`accepts a name of ${MAX_USER_NAME_LENGTH} characters`, async () => {
        const userId = await provider.createUser(someUser({ name: longestName() }), options);
        expect((await users()).find((user) => user.userId === userId)?.name).toBe(longestName());
      });

      it('accepts an e-mail of 254 characters, and two users with the same name', async () => {
        const domain = `${['d'.repeat(63), 'e'.repeat(63), 'f'.repeat(57)].join('.')}.org`;
        const email = `${unique()}${'a'.repeat(32)}@${domain}`;
        expect(email).toHaveLength(MAX_EMAIL_LENGTH);
        const ids = [
          await provider.createUser(someUser({ email }), options),
          await provider.createUser(someUser({ email: `o'hara+tag.${unique()}@sub.example.com` }), options),
        ];
        expect((await users()).filter(({ userId }) => ids.includes(userId))).toHaveLength(2);
      });
    });

    describe('updateUser', () => {
      it('sets only the name, and only of that user; the last writer wins', async () => {
        const user = someUser({ roleIds: [await someRole()] });
        const userId = await provider.createUser(user, options);
        const otherId = await provider.createUser(someUser({ name: 'Bob' }), options);
        for (const newName of ['Grace', 'Grace', ...ODD_NAMES, longestName()]) {
          await provider.updateUser(userId, { name: newName }, options);
        }
        const listed = await users();
        expect(listed.find((one) => one.userId === userId)).toEqual({ userId, name: longestName(), email: user.email });
        expect(listed.find((one) => one.userId === otherId)?.name).toBe('Bob');
        expect(await permissionsOf(userId)).toEqual(['read:users']);
      });

      it('rejects an unknown user id with UserNotFound', async () => {
        await expect(provider.updateUser(setting.unknownUserId, { name: 'x' }, options)).rejects.toThrow(UserNotFound);
      });

      it.each(labelled(MALFORMED_IDS))('treats the malformed id %s as unknown', async (_, userId) => {
        await expect(provider.updateUser(userId, { name: 'x' }, options)).rejects.toThrow(UserNotFound);
      });

      it('treats an id with extra characters before or after it as unknown', async () => {
        const userId = await provider.createUser(someUser(), options);
        for (const wrong of [`${userId}\u0000`, `${userId}\n`, ` ${userId}`, `${userId}x`, `${userId}|x`]) {
          await expect(provider.updateUser(wrong, { name: 'x' }, options)).rejects.toThrow(UserNotFound);
        }
        expect((await users()).find((user) => user.userId === userId)?.name).toBe('Ada');
      });
    });

    describe('assignRole', () => {
      it('adds a role to those the user already has; assigning it again changes nothing', async () => {
        const userId = await provider.createUser(someUser({ roleIds: [await someRole(['a:1'])] }), options);
        const roleId = await someRole(['b:2']);
        await provider.assignRole(userId, roleId, options);
        await expect(provider.assignRole(userId, roleId, options)).resolves.toBeUndefined();
        await Promise.all(Array.from({ length: setting.simultaneousCalls ?? 10 }, () => provider.assignRole(userId, roleId, options)));
        expect(await permissionsOf(userId)).toEqual(['a:1', 'b:2']);
      });

      it('rejects an unknown or malformed user id with UserNotFound', async () => {
        const roleId = await someRole();
        for (const userId of [setting.unknownUserId, ...MALFORMED_IDS]) {
          await expect(provider.assignRole(userId, roleId, options)).rejects.toThrow(UserNotFound);
        }
      });

      it('rejects an unknown or malformed role id with RoleNotFound', async () => {
        const userId = await provider.createUser(someUser(), options);
        const roleId = await someRole();
        for (const wrong of [setting.unknownRoleId, `${roleId}\u0000`, `${roleId}\n`, ` ${roleId}`, ...MALFORMED_IDS]) {
          await expect(provider.assignRole(userId, wrong, options)).rejects.toThrow(RoleNotFound);
        }
        expect(await permissionsOf(userId)).toEqual([]);
      });
    });

    describe('listUsers and listRoles', () => {
      it('list every user exactly once, over several pages', async () => {
        const created: string[] = [];
        for (let index = setting.moreThanOnePage ?? 501; index > 0; index--) {
          created.push(await provider.createUser(someUser(), options));
        }
        const listed = (await users()).map(({ userId }) => userId);
        expect(new Set(listed).size).toBe(listed.length);
        expect(created.every((id) => listed.includes(id))).toBe(true);
      });

      it('list every role exactly once, over several pages', async () => {
        const created: string[] = [];
        for (let index = setting.moreThanOnePage ?? 501; index > 0; index--) created.push(await someRole());
        const listed = (await roles()).map(({ roleId }) => roleId);
        expect(new Set(listed).size).toBe(listed.length);
        expect(created.every((id) => listed.includes(id))).toBe(true);
      });

      it('end when the iterator is returned', async () => {
        await provider.createUser(someUser(), options);
        await someRole();
        for (const pages of [provider.listUsers(options), provider.listRoles(options)]) {
          const iterator = pages[Symbol.asyncIterator]();
          expect((await iterator.next()).done).toBe(false);
          await iterator.return?.();
          expect((await iterator.next()).done).toBe(true);
        }
      });

      it('reject between two pages when the signal aborts', async () => {
        for (let index = setting.moreThanOnePage ?? 501; index > 0; index--) await provider.createUser(someUser(), options);
        const controller = new AbortController();
        let pages = 0;
        const listing = async (): Promise<void> => {
          for await (const page of provider.listUsers({ signal: controller.signal })) {
            pages += Math.sign(page.length);
            controller.abort();
          }
        };
        await expect(listing()).rejects.toThrow(ProviderUnavailable);
        expect(pages).toBe(1);
      });

      it('can be read at the same time', async () => {
        await provider.createUser(someUser(), options);
        const [one, other] = await Promise.all([users(), users()]);
        expect(one).toEqual(other);
      });
    });

    it('rejects every call whose signal has already aborted, and changes nothing', async () => {
      const aborted: ProviderCallOptions = { signal: AbortSignal.abort() };
      const user = someUser();
      const userId = await provider.createUser(user, options);
      const roleId = await someRole();
      const [newcomer, role] = [someUser(), newRole(`role ${unique()}`, ['read:users'])];
      const calls = [
        provider.createRole(role, aborted),
        provider.createUser(newcomer, aborted),
        provider.updateUser(userId, { name: 'Eve' }, aborted),
        provider.assignRole(userId, roleId, aborted),
        allOf(provider.listRoles(aborted)),
        allOf(provider.listUsers(aborted)),
        provider.checkHealth(aborted),
      ];
      for (const { status, reason } of (await Promise.allSettled(calls)) as PromiseRejectedResult[]) {
        expect(status).toBe('rejected');
        expect(reason).toBeInstanceOf(ProviderUnavailable);
      }
      const listed = await users();
      expect(listed).toContainEqual({ userId, name: user.name, email: user.email });
      expect(listed.some(({ email }) => email === newcomer.email)).toBe(false);
      expect((await roles()).some(({ name }) => name === role.name)).toBe(false);
    });

    it('keeps users, roles and their assignments across a restart', async () => {
      const roleId = await someRole(['a:1']);
      const user = someUser({ roleIds: [roleId] });
      const userId = await provider.createUser(user, options);
      await provider.updateUser(userId, { name: 'Grace' }, options);
      provider = await setting.reopen();
      expect(await users()).toContainEqual({ userId, name: 'Grace', email: user.email });
      expect((await roles()).map((role) => role.roleId)).toContain(roleId);
      await expect(provider.createUser(user, options)).rejects.toThrow(UserAlreadyExists);
      expect(await permissionsOf(userId)).toEqual(['a:1']);
    });

    it('reports that it is healthy', async () => {
      await expect(provider.checkHealth(options)).resolves.toBeUndefined();
    });
  });
}

/** Each text with a short label for the title of the test. */
const labelled = (texts: readonly string[]): [string, string][] =>
  texts.map((text) => [text.length > 80 ? `of ${text.length} code units` : JSON.stringify(text), text]);

async function allOf<Item>(pages: AsyncIterable<readonly Item[]>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const page of pages) items.push(...page);
  return items;
}

function expectOneWinner(results: readonly PromiseSettledResult<string>[], refusal: new (message: string) => Error): void {
  const losers = results.filter((result) => result.status === 'rejected');
  expect(losers).toHaveLength(results.length - 1);
  for (const { reason } of losers) expect(reason).toBeInstanceOf(refusal);
}
