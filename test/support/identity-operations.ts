import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BASE, expectAnswer, expectError, type Fields, fresh, freshEmail, identityRequests, type Operation, OPERATIONS, REFUSAL, type Target } from './identity-requests.js';

/** An identity provider under test, and the properties of it that the tests of the six identity operations need. */
export interface ProviderUnderTest {
  readonly userId: string;
  readonly roleId: string;
  readonly userPrefix: string;
  readonly rolePrefix: string;
  readonly unknownRoleId: string;
  /**
   * Whether names are tried with each blank and each control character. Default: with one of each, because the service
   * refuses all such names before it asks a provider.
   */
  readonly triesAllCharacters?: boolean;
  /**
   * Names of the maximum length (128 and 255 characters), with as many UTF-16 units as the provider accepts. Default:
   * two units per character.
   */
  readonly longestRoleName?: string;
  readonly longestUserName?: string;
  start(): Promise<Target>;
  stop(): Promise<void>;
  /** The permissions of a user as the provider itself reports them, in any order. */
  permissionsOf(userId: string): Promise<readonly string[]>;
  tokenOf(userId: string, email: string): Promise<string>;
}

// The characters with Unicode's property White_Space. U+0085 and those below U+0020 are control characters too.
const WHITE_SPACE = [9, 10, 11, 12, 13, 0x20, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000]
  .concat(Array.from({ length: 11 }, (_, index) => 0x2000 + index))
  .map((code) => String.fromCodePoint(code));
const CONTROLS = Array.from({ length: 0xa0 }, (_, code) => code).filter((code) => code < 0x20 || code > 0x7e);
const hex = (text: string | number): string => (typeof text === 'number' ? text : (text.codePointAt(0) ?? 0)).toString(16).padStart(4, '0');

type Row = readonly [what: string, value: unknown];

const WRONG_TYPES: Row[] = [
  ['missing', undefined],
  ['null', null],
  ['a number', 7],
  ['a boolean', true],
  ['an array', ['x']],
  ['an object', { x: 'x' }],
];

const badNames = (most: number, { triesAllCharacters = false }: Pick<ProviderUnderTest, 'triesAllCharacters'>): Row[] => [
  ...WRONG_TYPES,
  ['empty', ''],
  ...WHITE_SPACE.slice(0, triesAllCharacters ? undefined : 1).map((blank): Row => [`nothing but U+${hex(blank)}`, blank.repeat(2)]),
  ['nothing but different blanks', ' \u3000\u2003'],
  ...CONTROLS.slice(0, triesAllCharacters ? undefined : 1).map((code): Row => [`with U+${hex(code)}`, `a${String.fromCodePoint(code)}b`]),
  ['that ends with a line break', 'a\n'],
  ['a lone high surrogate', 'a\ud800'],
  ['a lone low surrogate', '\udc00a'],
  ['surrogates in the wrong order', '\ude00\ud83d'],
  [`${most + 1} characters`, 'a'.repeat(most + 1)],
  [`${most + 1} astral characters`, '😀'.repeat(most + 1)],
  [`${most} astral characters and one more`, `${'😀'.repeat(most)}a`],
  ['far too long', 'a'.repeat(20_000)],
];

const goodNames = (most: number, longest = '😀'.repeat(most)): (readonly [string, string])[] => [
  ['one character', 'ｘ'],
  [`${most} characters`, 'a'.repeat(most)],
  [`${most} characters, the longest in UTF-16`, longest],
  ['surrounding blanks, which are kept', ' \u3000a '],
  ['U+200B, which is not White_Space', '\u200b'],
  ['U+FEFF, which is not White_Space', '\ufeff'],
  ['U+00AD and U+00A0 inside', 'a\u00ad\u00a0b'],
  ['composed', 'caf\u00e9'],
  ['decomposed, which is another text', 'cafe\u0301'],
  ['upper case, which is another text', 'TAKEN'],
  ['a member of a prototype', '__proto__'],
  ['quotes', '"\'`\\'],
  ['SQL', "'); DROP TABLE users;--"],
];

const permissions = (length: number): string[] => Array.from({ length }, (_, index) => `read:${index}`);
const LABEL = 'd'.repeat(63);
/** Makes an e-mail of this length in which no part exceeds the part's own limit. */
const longEmail = (length: number): string => `${'l'.repeat(64)}@${LABEL}.${LABEL}.${'e'.repeat(length - 64 - 1 - 128 - 3)}.de`;

const BAD_PERMISSIONS: Row[] = [
  ['missing', undefined],
  ['null', null],
  ['a text', 'read:roles'],
  ['an object', { 0: 'read:roles', length: 1 }],
  ['empty', []],
  ['a number in it', ['read:roles', 1]],
  ['null in it', ['read:roles', null]],
  ['an array in it', [['read:roles']]],
  ['an object in it', [{ permission: 'read:roles' }]],
  ...['', ' ', 'read', 'read:', ':roles', ':', 'a:b c', 'a b:c', 'a:b\n', '\na:b', 'ä:b', 'a:ä', 'a/b:c', 'a:b,c', 'a:b|c', 'a:\u0000', 'a:😀'].map(
    (text): Row => [`with ${JSON.stringify(text)}`, ['read:roles', text]],
  ),
  ['256 characters', [`a:${'b'.repeat(254)}`]],
  ['257 distinct ones', permissions(257)],
];

const GOOD_PERMISSIONS: (readonly [string, string[], string[]])[] = [
  ['every character of an action', ['aZ09_.*-:x'], ['aZ09_.*-:x']],
  ['every character of a scope', ['x:aZ09_./:*-'], ['x:aZ09_./:*-']],
  ['255 characters', [`a:${'b'.repeat(253)}`], [`a:${'b'.repeat(253)}`]],
  ['256 distinct ones', permissions(256), permissions(256).sort()],
  ['256 distinct ones, each repeated', [...permissions(256), ...permissions(256)], permissions(256).sort()],
  ['repeated ones once', ['b:x', 'a:x', 'b:x'], ['a:x', 'b:x']],
  ['two that differ in letter case', ['a:x', 'A:x'], ['A:x', 'a:x']],
];

/** Defines the tests of the six identity operations. With each provider, the service must pass the same tests. */
export function identityOperations(name: string, provider: ProviderUnderTest): void {
  describe(`the six operations on ${name}`, () => {
    const target: Target = { url: '', token: '' };
    const { known, makeKnown, send, post, created, list, userOf, GOOD } = identityRequests(target);
    const permissionsOf = async (userId: string): Promise<string[]> => [...(await provider.permissionsOf(userId))].sort();

    beforeAll(async () => {
      Object.assign(target, await provider.start());
      await makeKnown();
    }, 180_000);
    afterAll(() => provider.stop());

    it('is ready', async () => {
      expect((await send('GET', '/health/ready')).status).toBe(200);
    });

    describe('succeed:', () => {
      it.each<[Operation, number, RegExp]>([
        ['assign-role', 200, /^\{"status":"success","message":"Role assigned successfully\."\}$/],
        ['create-role', 201, new RegExp(`^\\{"status":"success","role_id":"${provider.roleId}","message":"Role created successfully\\."\\}$`)],
        ['create-user', 201, new RegExp(`^\\{"status":"success","user_id":"${provider.userId}","message":"User created successfully\\."\\}$`)],
        ['update-user', 200, /^\{"status":"success","message":"User updated successfully\."\}$/],
      ])('POST /%s', async (operation, status, body) => {
        expectAnswer(await post(operation, GOOD[operation]()), status, body);
      });

      it.each<['roles' | 'users', RegExp]>([
        ['roles', new RegExp(`^\\{"roles":\\[(\\{"role_id":"${provider.roleId}","name":"[^"]*"\\},?)+\\]\\}$`)],
        ['users', new RegExp(`^\\{"users":\\[(\\{"user_id":"${provider.userId}","name":"[^"]*","email":"[^"]*"\\},?)+\\]\\}$`)],
      ])('GET /%s', async (member, body) => {
        expectAnswer(await send('GET', `${BASE}/${member}`), 200, body);
      });

      it.each([...OPERATIONS.map((operation) => ['POST', operation] as const), ['GET', 'roles'] as const, ['GET', 'users'] as const])(
        "%s /%s keeps the client's request id",
        async (method, path) => {
          const { headers } = await send(method, `${BASE}/${path}`, { headers: { 'X-Request-Id': 'a.B_c-9' } });
          expect(headers.get('x-request-id')).toBe('a.B_c-9');
        },
      );

      it('the lists contain new roles and users with the documented fields', async () => {
        const role = GOOD['create-role']();
        const roleId = await created('create-role', role);
        expect(await list('roles')).toContainEqual({ role_id: roleId, name: role.role_name });
        const user = GOOD['create-user']();
        const userId = await created('create-user', user);
        expect(await userOf(userId)).toEqual({ user_id: userId, name: 'Operator', email: user.email });
        await post('update-user', { user_id: userId, new_name: 'Night shift' });
        expect(await userOf(userId)).toEqual({ user_id: userId, name: 'Night shift', email: user.email });
      });

      it('assign-role assigns a role once, however often it is repeated', async () => {
        const userId = await created('create-user', { email: freshEmail(), roles: [] });
        for (let time = 0; time < 2; time++) {
          expectAnswer(await post('assign-role', { ...GOOD['assign-role'](), user_id: userId }), 200, /assigned/);
          expect(await permissionsOf(userId)).toEqual(['read:roles']);
        }
      });
    });

    it("accept a user's token with the permissions of the roles at the time of its issue", async () => {
      const email = freshEmail();
      const userId = await created('create-user', { email, roles: [] });
      const statuses = (token: string) =>
        Promise.all(['users', 'roles'].map(async (path) => (await send('GET', `${BASE}/${path}`, { headers: { Authorization: `Bearer ${token}` } })).status));
      const before = await provider.tokenOf(userId, email);
      expect(await statuses(before)).toEqual([403, 403]);
      const roleId = await created('create-role', { role_name: 'Readers of users', permissions: ['read:users'] });
      await post('assign-role', { user_id: userId, role_id: roleId });
      expect(await statuses(await provider.tokenOf(userId, email))).toEqual([200, 403]);
      expect(await statuses(before)).toEqual([403, 403]);
    });

    const badIds = (prefix: string, id: () => string): Row[] => [
      ...WRONG_TYPES,
      ['empty', ''],
      ['blank', ' '],
      ['unknown', `${prefix}00000000-0000-4000-8000-000000000000`],
      ['unknown, without dashes', `${prefix}${'0'.repeat(32)}`],
      ['malformed', 'x'],
      ['only the prefix', prefix],
      ['of another provider', 'keycloak|00000000-0000-4000-8000-000000000000'],
      ['with a control character', 'a\u0000'],
      ['with a lone surrogate', '\ud800'],
      ['far too long', 'a'.repeat(20_000)],
      ['a wildcard', '%'],
      ['with a trailing blank', () => `${id()} `],
      ['in upper case', () => id().toUpperCase()],
      ['without its last character', () => id().slice(0, -1)],
      ['in an array', () => [id()]],
    ];

    const BAD_EMAILS: Row[] = [
      ...WRONG_TYPES,
      ...['', ' ', 'a', 'a@', '@grid.example', 'a@grid', 'a@grid.', 'a@.example', 'a@grid..example', '.a@grid.example', 'a.@grid.example', 'a b@grid.example'].map(
        (text): Row => [JSON.stringify(text), text],
      ),
      ...['a@b@grid.example', ' a@grid.example', 'a@grid.example ', 'a@grid.example\n', 'a@grid_.example', 'A <a@grid.example>', 'a@grid.example,b@grid.example'].map(
        (text): Row => [JSON.stringify(text), text],
      ),
      ...['\u0000', '\u001f', '\u007f', '\u0085', '\u009f', '\u00a0', '\ud800'].map((text): Row => [`with U+${hex(text)}`, `a${text}@grid.example`]),
      ['255 characters', longEmail(255)],
      ['far too long', `${'a'.repeat(20_000)}@grid.example`],
      ['taken', known.email],
      ['taken in upper case', known.email.toUpperCase()],
      ['taken in another letter case', 'Taken@Grid.Example'],
    ];

    const BAD_ROLES: Row[] = [
      ['missing', undefined],
      ['null', null],
      ['an object', {}],
      ['a number', 1],
      ['a text', () => known.roleId],
      ['with a number', () => [known.roleId, 1]],
      ['with null', () => [known.roleId, null]],
      ['with an array', () => [[known.roleId]]],
      ['with an object', () => [{ role_id: known.roleId }]],
      ['with an empty text', () => [known.roleId, '']],
      ['a name in place of an id', [known.roleName]],
      ['an unknown one', [provider.unknownRoleId]],
      ['a known and an unknown one', () => [known.roleId, provider.unknownRoleId]],
      ['one in upper case', () => [known.roleId.toUpperCase()]],
      ['one of another provider', ['rol_0123456789abcdef']],
    ];

    const MEMBERS: [Operation, string, Row[]][] = [
      ['assign-role', 'user_id', badIds(provider.userPrefix, () => known.userId)],
      ['assign-role', 'role_id', badIds(provider.rolePrefix, () => known.roleId)],
      ['create-role', 'role_name', [...badNames(128, provider), ['in use', known.roleName]]],
      ['create-role', 'permissions', BAD_PERMISSIONS],
      ['create-user', 'email', BAD_EMAILS],
      ['create-user', 'name', badNames(255, provider).filter(([what]) => what !== 'missing')],
      ['create-user', 'roles', BAD_ROLES],
      ['update-user', 'user_id', badIds(provider.userPrefix, () => known.userId)],
      ['update-user', 'new_name', badNames(255, provider)],
    ];

    /** The service's roles and users, sorted: their order may change when the provider's search finds a new user. */
    const contents = async () => [...(await list('roles')), ...(await list('users'))].map((item) => JSON.stringify(item)).sort();
    describe.each(MEMBERS)('POST /%s rejects %s', (operation, member, rows) => {
      let before: string[];
      beforeAll(async () => {
        before = await contents();
      });

      it.each(rows)('%s', async (_what, value) => {
        const given: unknown = typeof value === 'function' ? (value as () => unknown)() : value;
        expectError(await post(operation, { ...GOOD[operation](), [member]: given }), 400, REFUSAL[operation]);
      });

      it('and changes nothing', async () => {
        expect(await contents()).toEqual(before);
      });
    });

    describe('store:', () => {
      it.each(goodNames(128, provider.longestRoleName))('create-role accepts a name: %s', async (_what, name) => {
        const roleId = await created('create-role', { ...GOOD['create-role'](), role_name: name });
        expect(await list('roles')).toContainEqual({ role_id: roleId, name });
        expectError(await post('create-role', { ...GOOD['create-role'](), role_name: name }), 400, REFUSAL['create-role']);
      });

      it.each(goodNames(255, provider.longestUserName))('create-user and update-user accept a name: %s', async (_what, name) => {
        const userId = await created('create-user', { ...GOOD['create-user'](), name });
        expect(await userOf(userId)).toMatchObject({ name });
        await post('update-user', { user_id: userId, new_name: 'between' });
        expect((await post('update-user', { user_id: userId, new_name: name })).status).toBe(200);
        expect(await userOf(userId)).toMatchObject({ name });
      });

      it.each(GOOD_PERMISSIONS)('create-role accepts permissions: %s', async (_what, given, kept) => {
        const roleId = await created('create-role', { role_name: fresh(), permissions: given });
        expect(await permissionsOf(await created('create-user', { email: freshEmail(), roles: [roleId] }))).toEqual(kept);
      });

      it.each([
        ['lower case', 'first.last+tag@grid.example', 'first.last+tag@grid.example'],
        ['upper case', 'UPPER@GRID.EXAMPLE', 'upper@grid.example'],
        ['letters beyond ASCII', 'ÄÖ@Grid.Example', 'äö@grid.example'],
        ['a letter whose lower case depends on its position', 'ΟΔΟΣ@grid.example', 'οδοσ@grid.example'],
        ['254 characters', longEmail(254).toUpperCase(), longEmail(254)],
        ['a quote', "o'hara@grid.example", "o'hara@grid.example"],
      ])('create-user stores an e-mail in lower case, which is also the default name: %s', async (_what, email, kept) => {
        const userId = await created('create-user', { email, roles: [] });
        expect(await userOf(userId)).toEqual({ user_id: userId, name: kept, email: kept });
        expectError(await post('create-user', { email: kept, roles: [] }), 400, REFUSAL['create-user']);
      });

      it.each<[string, () => string[], string[]]>([
        ['none', () => [], []],
        ['one', () => [known.roleId], ['read:roles']],
        ['one repeated', () => [known.roleId, known.roleId], ['read:roles']],
      ])('create-user assigns roles: %s', async (_what, roles, kept) => {
        expect(await permissionsOf(await created('create-user', { email: freshEmail(), roles: roles() }))).toEqual(kept);
      });

      it('create-user leaves no user behind when the roles cannot be assigned', async () => {
        const email = freshEmail();
        expectError(await post('create-user', { email, roles: [known.roleId, 'role_x'] }), 400, REFUSAL['create-user']);
        expect((await list('users')).map((user) => user.email)).not.toContain(email);
        await created('create-user', { email, roles: [known.roleId] });
      });

      it.each<[number, Operation, string, () => Fields, 'roles' | 'users', string]>([
        [20, 'create-role', 'one permission', () => ({ role_name: fresh(), permissions: [`${fresh()}:b`] }), 'roles', 'name'],
        [10, 'create-role', 'three permissions', () => ({ role_name: fresh(), permissions: [`${fresh()}:c`, `${fresh()}:d`, `${fresh()}:e`] }), 'roles', 'name'],
        [20, 'create-user', 'no roles', () => ({ email: freshEmail(), roles: [] }), 'users', 'email'],
      ])('exactly one of %i simultaneous %s with %s succeeds', async (count, operation, _, newFields, member, key) => {
        const fields = newFields();
        const answers = await Promise.all(Array.from({ length: count }, () => post(operation, fields)));
        expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
        const refused = answers.filter(({ status }) => status !== 201);
        expect(refused).toHaveLength(count - 1);
        for (const answer of refused) expectError(answer, 400, REFUSAL[operation]);
        expect((await list(member)).filter((item) => Object.values(fields).includes(item[key]))).toHaveLength(1);
      });

      it('all of 20 simultaneous assignments of one role succeed, and the user has the role', async () => {
        for (let round = 0; round < 2; round++) {
          const userId = await created('create-user', { email: freshEmail(), roles: [] });
          const answers = await Promise.all(Array.from({ length: 20 }, () => post('assign-role', { user_id: userId, role_id: known.roleId })));
          for (const answer of answers) expectAnswer(answer, 200, /assigned/);
          expect(await permissionsOf(userId)).toEqual(['read:roles']);
        }
      });
    });
  });
}
