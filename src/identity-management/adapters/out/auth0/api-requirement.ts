import { z } from 'zod';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import { Operation } from '../provider-api/operation.js';
import type { Repair, Requirement } from '../provider-requirements/requirement.js';
import type { ApiScopes } from './api-scopes.js';
import { API_SETTINGS, DIALECTS, newApi } from './tenant.js';
import type { TenantAdmin } from './tenant-admin.js';

/** An API in an answer of Auth0, which omits settings that are off. */
const API = z.object({
  signing_alg: z.string().nullish(),
  enforce_policies: z.boolean().nullish(),
  token_dialect: z.string().nullish(),
  scopes: z.array(z.object({ value: z.string() })).nullish(),
});
type Api = z.infer<typeof API>;

interface Setting {
  readonly name: keyof typeof API_SETTINGS;
  readonly isRight: (api: Api) => boolean;
  readonly problem: (api: Api) => string;
}

const SETTINGS: readonly Setting[] = [
  {
    name: 'signing_alg',
    isRight: ({ signing_alg: algorithm }) => algorithm === API_SETTINGS.signing_alg,
    problem: ({ signing_alg: algorithm }) => `signs tokens with ${algorithm ?? 'an algorithm that it does not name'}, but the service accepts only RS256 (signing_alg).`,
  },
  {
    name: 'enforce_policies',
    isRight: ({ enforce_policies: isEnforced }) => isEnforced === true,
    problem: () => 'has RBAC switched off (enforce_policies), so that tokens carry no permissions.',
  },
  {
    name: 'token_dialect',
    isRight: ({ token_dialect: dialect }) => DIALECTS.includes(dialect ?? ''),
    problem: () => 'puts no permissions into tokens (token_dialect).',
  },
];

/** The requirement that the tenant has an API with the service's settings, and with all its permissions as scopes. */
export function apiPart(admin: TenantAdmin, scopes: ApiScopes, audience: string): Requirement<Repair> {
  const name = `API ${audience}`;
  const path = `/resource-servers/${encodeURIComponent(audience)}`;
  const absence: Repair = {
    text: `+ ${name}`,
    problem: `There is no API "${audience}" (OIDC_AUDIENCE).`,
    isFatal: true,
    make: () => admin.send('POST', '/resource-servers', newApi(audience)),
  };
  const setting = (api: Api, { name: member, problem }: Setting): Repair => ({
    text: `~ ${name}: ${member}`,
    problem: `The API "${audience}" ${problem(api)}`,
    isFatal: true,
    make: () => admin.send('PATCH', path, { [member]: alike(api, member) }),
  });
  const permission = (missing: readonly string[]) => (value: string): Repair => ({
    text: `+ permission ${value}`,
    problem: `The API "${audience}" has no permission "${value}".`,
    isFatal: false,
    // The first of these changes adds all missing scopes, because the API's list of scopes can only be replaced as a whole.
    make: () => scopes.ensure(missing, new Operation()),
  });
  return {
    name,
    changes: async () => {
      const api = await admin.find(path, API);
      if (!api) return [absence];
      const present = new Set(api.scopes?.map(({ value }) => value));
      const missing = PERMISSIONS.filter((value) => !present.has(value));
      return [...SETTINGS.filter(({ isRight }) => !isRight(api)).map((each) => setting(api, each)), ...missing.map(permission(missing))];
    },
  };
}

/** The value to set for a setting. An API with tokens in the RFC 9068 profile keeps that profile. */
function alike({ token_dialect: dialect }: Api, member: Setting['name']): unknown {
  return member === 'token_dialect' && dialect === 'rfc9068_profile' ? 'rfc9068_profile_authz' : API_SETTINGS[member];
}
