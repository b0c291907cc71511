import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { protocolMappers } from '../../src/identity-management/adapters/out/keycloak/realm.js';
import { type FaultProxy, startFaultProxy } from '../servers/fault-proxy.mjs';
import type { Keycloak } from '../servers/keycloak.mjs';
import { Browser, type Page } from './browser.js';
import { BASE, fresh, freshEmail, identityRequests } from './identity-requests.js';
import { keycloakToken, keycloakVariables, testRealm } from './keycloak-realm.js';
import { MailServer } from './mail-server.js';
import { type RunningService, startService } from './service.js';
import { swaggerUiOptions } from './swagger-ui.js';

const PATIENCE = { timeout: 10_000, interval: 50 };
const CLIENT = 'load-data-swagger-ui';
const UPLOAD = '/ingestHistoricalLoadData/upload_historical?filename=load.csv&manufacturer=Acme&customer_id=';

interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

/**
 * Defines the tests of how people log in at Keycloak, renew their tokens and follow invitations. They leave users,
 * roles and a client in the realm.
 *
 * @param keycloak the Keycloak with this realm, once the tests have begun
 */
export function peopleAtKeycloak(keycloak: () => Keycloak): void {
  describe('users and Keycloak', { timeout: 60_000 }, () => {
    let server: Keycloak;
    let service: RunningService;
    const target = { url: '', token: '' };
    const { send, post, created } = identityRequests(target);

    beforeAll(async () => {
      server = keycloak();
      service = await start();
      await server.administer('POST', '/clients', {
        clientId: CLIENT,
        publicClient: true,
        baseUrl: `${service.url}/docs`,
        redirectUris: [`${service.url}/docs/oauth2-redirect.html`],
        webOrigins: [service.url],
        attributes: { 'pkce.code.challenge.method': 'S256' },
        protocolMappers: protocolMappers('load-data-api'),
      });
      Object.assign(target, { url: service.url, token: await keycloakToken(server) });
    });
    afterAll(() => service.close());

    const start = (variables: Record<string, string> = {}) =>
      startService({ ...keycloakVariables(server.endpoint), SWAGGER_UI_CLIENT_ID: CLIENT, INGESTION_AUTH: 'required', ...variables });
    const pathOf = (userId: string): string => `/users/${userId.replace('keycloak|', '')}`;
    const roleOf = (...permissions: string[]): Promise<string> => created('create-role', { role_name: fresh(), permissions });

    /**
     * Begins a login like the button Authorize of Swagger UI. `finish` takes the page of the last redirect, and
     * exchanges its code for tokens.
     */
    async function authorize(browser: Browser): Promise<{ page: Page; finish: (redirected: Page) => Promise<Tokens> }> {
      const { flows, oauth2RedirectUrl = '', initOAuth } = await swaggerUiOptions(service.url);
      const { authorizationUrl = '', tokenUrl = '' } = flows.authorizationCode ?? {};
      const verifier = randomBytes(32).toString('base64url');
      const state = randomBytes(8).toString('hex');
      const query = new URLSearchParams({
        response_type: 'code',
        client_id: initOAuth.clientId,
        redirect_uri: oauth2RedirectUrl,
        state,
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
        code_challenge_method: 'S256',
      });
      const finish = async ({ url }: Page): Promise<Tokens> => {
        expect(url).toMatch(`${oauth2RedirectUrl}?`);
        const { searchParams } = new URL(url);
        expect(searchParams.get('state')).toBe(state);
        return tokens(tokenUrl, { grant_type: 'authorization_code', code: searchParams.get('code') ?? '', redirect_uri: oauth2RedirectUrl, code_verifier: verifier });
      };
      return { page: await browser.open(`${authorizationUrl}?${query.toString()}`), finish };
    }

    /** Requests tokens like a script on the service's pages, whose origin Keycloak must allow to read the answer. */
    async function tokens(tokenUrl: string, grant: Record<string, string>): Promise<Tokens> {
      const body = new URLSearchParams({ client_id: CLIENT, ...grant });
      const response = await fetch(tokenUrl, { method: 'POST', body, headers: { origin: service.url } });
      expect({ status: response.status, origin: response.headers.get('access-control-allow-origin') }).toEqual({ status: 200, origin: service.url });
      return (await response.json()) as Tokens;
    }

    async function renewed({ refresh_token }: Tokens): Promise<Tokens> {
      const { flows } = await swaggerUiOptions(service.url);
      return tokens(flows.authorizationCode?.tokenUrl ?? '', { grant_type: 'refresh_token', refresh_token });
    }

    const newPassword = { 'password-new': 'of their own', 'password-confirm': 'of their own' };

    async function firstLogin(userId: string, email: string): Promise<Tokens> {
      await server.administer('PUT', `${pathOf(userId)}/reset-password`, { type: 'password', value: 'for once', temporary: true });
      const browser = new Browser(server.endpoint);
      const { page, finish } = await authorize(browser);
      const demand = await browser.submit(page, { username: email, password: 'for once' });
      expect(demand.html).toContain('name="password-new"');
      return finish(await browser.submit(demand, newPassword));
    }

    const statuses = async ({ access_token }: Tokens) => {
      const headers = { Authorization: `Bearer ${access_token}` };
      return { users: (await send('GET', `${BASE}/users`, { headers })).status, roles: (await send('GET', `${BASE}/roles`, { headers })).status };
    };
    const uploadTo = async (customerId: string, { access_token }: Tokens) =>
      (await send('POST', UPLOAD + customerId, { body: 'a,b', headers: { Authorization: `Bearer ${access_token}` } })).status;

    it('a new user sets a password at the first login, and gets a token with the permissions of their roles', async () => {
      const email = freshEmail();
      const userId = await created('create-user', { email, roles: [await roleOf('read:users')] });
      expect(await server.administer('GET', pathOf(userId))).toMatchObject({ requiredActions: ['UPDATE_PASSWORD'] });
      expect(await statuses(await firstLogin(userId, email))).toEqual({ users: 200, roles: 403 });
      expect(await server.administer('GET', pathOf(userId))).toMatchObject({ requiredActions: [] });

      const browser = new Browser(server.endpoint);
      const { page, finish } = await authorize(browser);
      const again = await finish(await browser.submit(page, { username: email, password: newPassword['password-new'] }));
      expect(await statuses(again)).toEqual({ users: 200, roles: 403 });
    });

    it('assigning or removing a role changes the next token, but no earlier one', async () => {
      const email = freshEmail();
      const userId = await created('create-user', { email, roles: [await roleOf('read:users')] });
      const before = await firstLogin(userId, email);
      const roleId = await roleOf('read:roles');
      expect((await post('assign-role', { user_id: userId, role_id: roleId })).status).toBe(200);
      const given = await renewed(before);
      expect(await statuses(given)).toEqual({ users: 200, roles: 200 });
      expect(await statuses(before)).toEqual({ users: 200, roles: 403 });

      const role = await server.administer('GET', `/roles-by-id/${roleId}`);
      await server.administer('DELETE', `${pathOf(userId)}/role-mappings/realm`, [role]);
      expect(await statuses(await renewed(given))).toEqual({ users: 200, roles: 403 });
      expect(await statuses(given)).toEqual({ users: 200, roles: 200 });
    });

    it("a user's attribute customer_id permits uploads for these customers", async () => {
      const email = freshEmail();
      const userId = await created('create-user', { email, roles: [await roleOf('upload:historical')] });
      const before = await firstLogin(userId, email);
      expect(await uploadTo('acme', before)).toBe(403);

      const user = (await server.administer('GET', pathOf(userId))) as object;
      await server.administer('PUT', pathOf(userId), { ...user, attributes: { customer_id: ['acme', 'north'] } });
      const after = await renewed(before);
      expect([await uploadTo('acme', after), await uploadTo('north', after), await uploadTo('other', after)]).toEqual([200, 200, 403]);
      expect(await uploadTo('acme', before)).toBe(403);
    });

    describe('with KEYCLOAK_INVITATION_MAIL', () => {
      let inviting: RunningService;
      let proxy: FaultProxy;
      const mailServer = new MailServer();
      beforeAll(async () => {
        await mailServer.start();
        proxy = await startFaultProxy(server.endpoint);
      });
      afterAll(async () => {
        await proxy.close();
        await mailServer.close();
      });
      beforeEach(async () => {
        await server.administer('PUT', '', { smtpServer: mailServer.smtpServer });
        mailServer.mails.length = 0;
        mailServer.onMail = undefined;
        await proxy.pass();
        const issuer = `${server.endpoint}/realms/${testRealm().realm}`;
        inviting = await start({ KEYCLOAK_URL: proxy.endpoint, OIDC_ISSUER: issuer, KEYCLOAK_INVITATION_MAIL: 'true' });
        target.url = inviting.url;
        return async () => {
          target.url = service.url;
          await inviting.close();
        };
      });

      const invite = async () => {
        const email = freshEmail();
        return { email, userId: await created('create-user', { email, roles: [await roleOf('read:users')] }) };
      };
      const addressees = () => mailServer.mails.map(({ to }) => to);
      const warnings = () => inviting.log.entries.filter(({ level }) => level === 'warn').map(({ text }) => text);
      const sent = () => inviting.log.entries.filter(({ level, text }) => level === 'info' && text.includes('invitation')).map(({ text }) => text);

      it('a new user sets a password with the link in a mail, and logs in with it', async () => {
        const { email, userId } = await invite();
        await expect.poll(addressees, PATIENCE).toEqual([email]);
        const [link = ''] = /http:\S+\/action-token\S+/.exec(mailServer.mails[0]?.source ?? '') ?? [];
        const invited = new Browser(server.endpoint);
        const demand = await invited.follow(await invited.open(link), /proceed/);
        const end = await invited.submit(demand, newPassword);
        expect(await invited.follow(end, /Back to Application/i)).toMatchObject({ url: `${service.url}/docs` });
        expect(await server.administer('GET', pathOf(userId))).toMatchObject({ requiredActions: [], emailVerified: true });

        const browser = new Browser(server.endpoint);
        const { page, finish } = await authorize(browser);
        const tokensOfTheirs = await finish(await browser.submit(page, { username: email, password: newPassword['password-new'] }));
        expect(await statuses(tokensOfTheirs)).toEqual({ users: 200, roles: 403 });
        expect(warnings()).toEqual([]);
        await expect.poll(sent, PATIENCE).toEqual([expect.stringContaining(userId.replace('keycloak|', ''))]);
      });

      it('a user whose creation failed gets no mail', async () => {
        proxy.respond(400, '{}', { to: ({ method, url }) => method === 'POST' && url.endsWith('/role-mappings/realm') });
        const failed = freshEmail();
        expect((await post('create-user', { email: failed, roles: [await roleOf('read:users')] })).status).toBe(503);
        await proxy.pass();
        const { email } = await invite();
        await expect.poll(addressees, PATIENCE).toEqual([email]);
      });

      it('the answer does not wait for the mail', async () => {
        let release = (): void => undefined;
        mailServer.onMail = () => new Promise((resolve) => (release = resolve));
        const { email } = await invite();
        const { email: another } = await invite();
        expect(addressees()).toEqual([]);
        await expect.poll(() => { release(); return addressees(); }, PATIENCE).toEqual([email, another]);
      });

      it('the shutdown of the service does not wait for mails, and logs the users who may have got none', async () => {
        let release = (): void => undefined;
        const reached = new Promise<void>((arrive) => {
          mailServer.onMail = () => new Promise((resolve) => { release = resolve; arrive(); });
        });
        const invited = [await invite(), await invite()];
        await reached;
        await inviting.close();
        release();
        expect(warnings()).toEqual(invited.map(({ userId }): unknown => expect.stringContaining(userId.replace('keycloak|', ''))));
      });

      it('a failed mail causes a warning without an address, and the user remains', async () => {
        mailServer.onMail = () => Promise.reject(new Error('No such mailbox'));
        const { email, userId } = await invite();
        await expect.poll(warnings, PATIENCE).toEqual([expect.stringContaining(userId.replace('keycloak|', ''))]);
        expect(inviting.log.text).not.toContain(email);
        expect(await server.administer('GET', pathOf(userId))).toMatchObject({ email });
      });

      it('a realm without a mail server is reported once, and no mail is requested', async () => {
        await server.administer('PUT', '', { smtpServer: {} });
        const asked: string[] = [];
        proxy.respond(500, '', { to: ({ method, url }) => { asked.push(`${method} ${url}`); return false; } });
        for (let time = 0; time < 3; time++) await invite();
        // The service handles invitations in order, so the first two are done when it reads the realm for the third.
        await expect.poll(() => asked.filter((request) => /^GET .*\/realms\/[^/]+$/.test(request)).length, PATIENCE).toBe(3);
        expect(warnings()).toEqual([expect.stringContaining('KEYCLOAK_INVITATION_MAIL')]);
        expect(asked.filter((request) => request.includes('execute-actions-email'))).toEqual([]);
        expect(sent()).toEqual([]);
      });
    });
  });
}
