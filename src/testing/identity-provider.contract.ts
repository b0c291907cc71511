import assert from 'node:assert/strict';
import type { IdentityProvider, ProviderCallOptions } from '../identity-management/application/ports/identity-provider.port.js';
import {
  ProviderUnavailable,
  RoleAlreadyExists,
  RoleNotFound,
  UserAlreadyExists,
  UserNotFound,
} from '../identity-management/domain/errors.js';
import { MAX_PERMISSIONS, MAX_ROLE_NAME_LENGTH, newRole } from '../identity-management/domain/role.js';
import { MAX_EMAIL_LENGTH, MAX_USER_NAME_LENGTH } from '../identity-management/domain/user.js';
import { assertContains, assertEqual, assertInstance, assertLength, rejectionOf } from './expectations.js';
import { identityProviderListsContract } from './identity-provider-lists.contract.js';
import { allOf, providerCalls, someUser, unique } from './identity-provider.calls.js';
import { PROMISES } from './identity-provider.promises.js';
import { type IdentityProviderSetting, labelled, MALFORMED_IDS, ODD_NAMES } from './identity-provider.subject.js';
import { promisesOf } from './port-promise.js';
import { currentTestRunner, type TestRunner } from './test-runner.js';

const USER_ID = /^[A-Za-z0-9._-]+\|[^\s|]+$/u;

/**
 * Defines the tests that every adapter of the `IdentityProvider` port must pass.
 *
 * @param setUp called before each test. The provider may already have users and roles.
 * @param runner default: the global functions of the running test runner, or Vitest's own.
 */
export function identityProviderContract(name: string, setUp: () => Promise<IdentityProviderSetting>, runner: TestRunner = currentTestRunner()): void {
  const { describe, beforeEach, afterEach } = runner;
  const it = promisesOf('IdentityProvider', runner);

  describe(`IdentityProvider contract: ${name}`, () => {
    let setting: IdentityProviderSetting;
    let provider: IdentityProvider;
    /** Each of many simultaneous calls has its own signal, because Node warns when many calls wait for one signal. */
    const ownOptions = (): ProviderCallOptions => ({ signal: new AbortController().signal });
    const options = ownOptions();

    beforeEach(async () => {
      setting = await setUp();
      provider = setting.provider;
    });
    afterEach(async () => {
      await setting.tearDown();
    });

    const { someRole, users, roles } = providerCalls(() => provider, options);
    const longestName = (): string => setting.longestName ?? '😀'.repeat(MAX_USER_NAME_LENGTH);
    const permissionsOf = async (userId: string): Promise<string[]> => [...(await setting.permissionsOf(userId))].sort();

    describe('createRole', () => {
      it(PROMISES.createRole, 'gives each role its own id, and lists the role with its id and name', async () => {
        const [first, second] = [`a ${unique()}`, `b ${unique()}`];
        const firstId = await provider.createRole(newRole(first, ['read:users']), options);
        const secondId = await provider.createRole(newRole(second, ['read:users']), options);
        assert.match(firstId, /^\S+$/);
        assert.notEqual(secondId, firstId);
        const listed = await roles();
        assertContains(listed, { roleId: firstId, name: first });
        assertContains(listed, { roleId: secondId, name: second });
      });

      it(PROMISES.roleExists, 'rejects a name that is in use, and leaves the existing role unchanged', async () => {
        const role = newRole(`role ${unique()}`, ['read:users']);
        const roleId = await provider.createRole(role, options);
        assertInstance(await rejectionOf(provider.createRole(newRole(role.name, ['read:roles']), options)), RoleAlreadyExists);
        assertEqual((await roles()).filter(({ name }) => name === role.name), [{ roleId, name: role.name }]);
        const userId = await provider.createUser(someUser({ roleIds: [roleId] }), options);
        assertEqual(await permissionsOf(userId), ['read:users']);
      });

      it(PROMISES.roleExists, 'compares names as text: a difference in case, spaces or Unicode normalization makes another name', async () => {
        const name = `Rôle ${unique()}`;
        const variants = [name, name.toLowerCase(), `${name} `, name.normalize('NFD')];
        for (const variant of variants) await provider.createRole(newRole(variant, ['read:users']), options);
        const names = (await roles()).map((role) => role.name);
        for (const variant of variants) assert.ok(names.includes(variant), `No role is listed as ${JSON.stringify(variant)}.`);
      });

      it(PROMISES.oneRole, 'lets exactly one of many simultaneous calls create a role of the same name', async () => {
        const role = newRole(`role ${unique()}`, ['read:users']);
        const results = await Promise.allSettled(Array.from({ length: setting.simultaneousCalls ?? 50 }, () => provider.createRole(role, ownOptions())));
        assertOneWinner(results, RoleAlreadyExists);
        assertLength((await roles()).filter(({ name }) => name === role.name), 1);
      });

      it(PROMISES.permissions, 'stores all 256 permissions of a role', async () => {
        const permissions = Array.from({ length: MAX_PERMISSIONS }, (_, index) => `do.${index}-x_*:${'s/:.*-_'.repeat(20)}${index}`);
        const userId = await provider.createUser(someUser({ roleIds: [await someRole(permissions)] }), options);
        assertEqual(await permissionsOf(userId), [...permissions].sort());
      });

      for (const [what, odd] of labelled([...ODD_NAMES, '😀'.repeat(MAX_ROLE_NAME_LENGTH - 33)])) {
        it(PROMISES.names, `accepts the odd but valid name ${what}`, async () => {
          const role = newRole(`${odd} ${unique()}`, ['read:users']);
          const roleId = await provider.createRole(role, options);
          assertEqual((await roles()).find((listed) => listed.roleId === roleId), { roleId, name: role.name });
        });
      }
    });

    describe('createUser', () => {
      it(PROMISES.userId, 'gives each user their own id `<provider_prefix>|<opaque_id>`, and lists the user with it', async () => {
        const [ada, bob] = [someUser({ name: 'Ada' }), someUser({ name: 'Bob' })];
        const adaId = await provider.createUser(ada, options);
        const bobId = await provider.createUser(bob, options);
        assert.match(adaId, USER_ID);
        assert.match(bobId, USER_ID);
        assert.notEqual(bobId, adaId);
        const listed = await users();
        assertContains(listed, { userId: adaId, name: 'Ada', email: ada.email });
        assertContains(listed, { userId: bobId, name: 'Bob', email: bob.email });
      });

      it(PROMISES.userRoles, 'gives the user their roles, all of them and no others', async () => {
        await someRole(['other:role']);
        const roleIds = [await someRole(['a:1', 'b:2']), await someRole(['b:2', 'c:3'])];
        const userId = await provider.createUser(someUser({ roleIds }), options);
        assertEqual(await permissionsOf(userId), ['a:1', 'b:2', 'c:3']);
        const without = await provider.createUser(someUser(), options);
        assertEqual(await permissionsOf(without), []);
      });

      it(PROMISES.userExists, 'rejects an e-mail that is in use, and leaves the existing user unchanged', async () => {
        const user = someUser();
        const userId = await provider.createUser(user, options);
        assertInstance(await rejectionOf(provider.createUser({ ...user, name: 'Eve' }, options)), UserAlreadyExists);
        assertEqual((await users()).filter(({ email }) => email === user.email), [{ userId, name: 'Ada', email: user.email }]);
      });

      it(PROMISES.oneUser, 'lets exactly one of many simultaneous calls create a user with the same e-mail', async () => {
        const user = someUser({ roleIds: [await someRole()] });
        const results = await Promise.allSettled(Array.from({ length: setting.simultaneousCalls ?? 50 }, () => provider.createUser(user, ownOptions())));
        assertOneWinner(results, UserAlreadyExists);
        assertLength((await users()).filter(({ email }) => email === user.email), 1);
      });

      it(PROMISES.allOrNothing, 'leaves no user behind and the e-mail free when one of the roles is unknown', async () => {
        const user = someUser({ roleIds: [await someRole(), setting.unknownRoleId, await someRole()] });
        assertInstance(await rejectionOf(provider.createUser(user, options)), RoleNotFound);
        assert.equal((await users()).some(({ email }) => email === user.email), false, 'A user without all of their roles was left behind.');
        assert.match(await provider.createUser({ ...user, roleIds: [] }, options), USER_ID);
      });

      for (const [what, roleId] of labelled(MALFORMED_IDS)) {
        it(PROMISES.unknownIds, `treats the malformed role id ${what} as unknown`, async () => {
          const user = someUser({ roleIds: [roleId] });
          assertInstance(await rejectionOf(provider.createUser(user, options)), RoleNotFound);
          assert.match(await provider.createUser({ ...user, roleIds: [] }, options), USER_ID);
        });
      }

      for (const [what, odd] of labelled(ODD_NAMES)) {
        it(PROMISES.names, `accepts the odd but valid name ${what}`, async () => {
          const userId = await provider.createUser(someUser({ name: odd }), options);
          assert.equal((await users()).find((user) => user.userId === userId)?.name, odd);
        });
      }

      it(PROMISES.names, `accepts a name of ${MAX_USER_NAME_LENGTH} characters`, async () => {
        const userId = await provider.createUser(someUser({ name: longestName() }), options);
        assert.equal((await users()).find((user) => user.userId === userId)?.name, longestName());
      });

      it(PROMISES.emails, 'accepts an e-mail of 254 characters, and two users with the same name', async () => {
        const domain = `${['d'.repeat(63), 'e'.repeat(63), 'f'.repeat(57)].join('.')}.org`;
        const email = `${unique()}${'a'.repeat(32)}@${domain}`;
        assert.equal(email.length, MAX_EMAIL_LENGTH);
        const ids = [
          await provider.createUser(someUser({ email }), options),
          await provider.createUser(someUser({ email: `o'hara+tag.${unique()}@sub.example.com` }), options),
        ];
        assertLength((await users()).filter(({ userId }) => ids.includes(userId)), 2);
      });
    });

    describe('updateUser', () => {
      it(PROMISES.update, 'sets only the name, and only of that user; the last writer wins', async () => {
        const user = someUser({ roleIds: [await someRole()] });
        const userId = await provider.createUser(user, options);
        const otherId = await provider.createUser(someUser({ name: 'Bob' }), options);
        for (const newName of ['Grace', 'Grace', ...ODD_NAMES, longestName()]) {
          await provider.updateUser(userId, { name: newName }, options);
        }
        const listed = await users();
        assertEqual(listed.find((one) => one.userId === userId), { userId, name: longestName(), email: user.email });
        assert.equal(listed.find((one) => one.userId === otherId)?.name, 'Bob');
        assertEqual(await permissionsOf(userId), ['read:users']);
      });

      it(PROMISES.userNotFound, 'rejects an unknown user id with UserNotFound', async () => {
        assertInstance(await rejectionOf(provider.updateUser(setting.unknownUserId, { name: 'x' }, options)), UserNotFound);
      });

      for (const [what, userId] of labelled(MALFORMED_IDS)) {
        it(PROMISES.unknownIds, `treats the malformed id ${what} as unknown`, async () => {
          assertInstance(await rejectionOf(provider.updateUser(userId, { name: 'x' }, options)), UserNotFound);
        });
      }

      it(PROMISES.unknownIds, 'treats an id with extra characters before or after it as unknown', async () => {
        const userId = await provider.createUser(someUser(), options);
        for (const wrong of [`${userId}\u0000`, `${userId}\n`, ` ${userId}`, `${userId}x`, `${userId}|x`]) {
          assertInstance(await rejectionOf(provider.updateUser(wrong, { name: 'x' }, options)), UserNotFound);
        }
        assert.equal((await users()).find((user) => user.userId === userId)?.name, 'Ada');
      });
    });

    describe('assignRole', () => {
      it(PROMISES.assign, 'adds a role to those the user already has; assigning it again changes nothing', async () => {
        const userId = await provider.createUser(someUser({ roleIds: [await someRole(['a:1'])] }), options);
        const roleId = await someRole(['b:2']);
        await provider.assignRole(userId, roleId, options);
        await provider.assignRole(userId, roleId, options);
        await Promise.all(Array.from({ length: setting.simultaneousCalls ?? 10 }, () => provider.assignRole(userId, roleId, ownOptions())));
        assertEqual(await permissionsOf(userId), ['a:1', 'b:2']);
      });

      it(PROMISES.userNotFound, 'rejects an unknown or malformed user id with UserNotFound', async () => {
        const roleId = await someRole();
        for (const userId of [setting.unknownUserId, ...MALFORMED_IDS]) {
          assertInstance(await rejectionOf(provider.assignRole(userId, roleId, options)), UserNotFound);
        }
      });

      it(PROMISES.unknownIds, 'rejects an unknown or malformed role id with RoleNotFound', async () => {
        const userId = await provider.createUser(someUser(), options);
        const roleId = await someRole();
        for (const wrong of [setting.unknownRoleId, `${roleId}\u0000`, `${roleId}\n`, ` ${roleId}`, ...MALFORMED_IDS]) {
          assertInstance(await rejectionOf(provider.assignRole(userId, wrong, options)), RoleNotFound);
        }
        assertEqual(await permissionsOf(userId), []);
      });
    });

    identityProviderListsContract(() => setting, runner);

    it(PROMISES.aborts, 'rejects every call whose signal has already aborted, and changes nothing', async () => {
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
        assert.equal(status, 'rejected', 'A call resolved, although its signal had aborted.');
        assertInstance(reason, ProviderUnavailable);
      }
      const listed = await users();
      assertContains(listed, { userId, name: user.name, email: user.email });
      assert.equal(listed.some(({ email }) => email === newcomer.email), false, 'A user was created, although the signal had aborted.');
      assert.equal((await roles()).some(({ name }) => name === role.name), false, 'A role was created, although the signal had aborted.');
    });

    it(PROMISES.external, 'keeps users, roles and their assignments across a restart', async () => {
      const roleId = await someRole(['a:1']);
      const user = someUser({ roleIds: [roleId] });
      const userId = await provider.createUser(user, options);
      await provider.updateUser(userId, { name: 'Grace' }, options);
      provider = await setting.reopen();
      assertContains(await users(), { userId, name: 'Grace', email: user.email });
      assert.ok((await roles()).some((role) => role.roleId === roleId), 'The role is gone after a restart.');
      assertInstance(await rejectionOf(provider.createUser(user, options)), UserAlreadyExists);
      assertEqual(await permissionsOf(userId), ['a:1']);
    });

    it(PROMISES.healthy, 'reports that it is healthy', async () => {
      await provider.checkHealth(options);
    });
  });
}

function assertOneWinner(results: readonly PromiseSettledResult<string>[], refusal: new (message: string) => Error): void {
  const losers = results.filter((result) => result.status === 'rejected');
  assertLength(losers, results.length - 1, `${results.length - losers.length} of ${results.length} simultaneous calls succeeded, instead of 1.`);
  for (const { reason } of losers) assertInstance(reason, refusal);
}
