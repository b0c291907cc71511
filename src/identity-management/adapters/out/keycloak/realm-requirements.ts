import { z } from 'zod';
import { PERMISSIONS } from '../../../../authentication/permissions.js';
import { type Repair, type Requirement, lacking } from '../provider-requirements/requirement.js';
import { API_CLIENT, clientScope, protocolMappers } from './realm.js';
import { NAMED, NAMED_ONES, type RealmAdmin } from './realm-admin.js';
import { profileDefects, USER_PROFILE } from './user-profile.js';

const MAPPER = z.looseObject({ id: z.string(), name: z.string() });
const SCOPES = z.array(NAMED.extend({ protocolMappers: z.array(MAPPER).nullish() }));

/** The requirement that the realm has a client that represents the API. */
export function apiClient(admin: RealmAdmin, audience: string): Requirement<Repair> {
  const name = `client ${audience}`;
  const make = () => admin.send('POST', '/clients', { clientId: audience, ...API_CLIENT });
  const repair = { text: `+ ${name}`, problem: `There is no client "${audience}" (OIDC_AUDIENCE).`, isFatal: true, make };
  return { name, changes: async () => ((await admin.client(audience)) ? [] : [repair]) };
}

/** The requirement that the API's client has one role for each permission of the service. */
export function permissions(admin: RealmAdmin, audience: string): Requirement<Repair> {
  const repair = (permission: string): Repair => ({
    text: `+ permission ${permission}`,
    problem: `The client "${audience}" has no role "${permission}".`,
    isFatal: false,
    make: async () => admin.send('POST', `${await admin.pathOfClient(audience)}/roles`, { name: permission }),
  });
  return {
    name: 'permissions',
    changes: async () => {
      const present = new Set((await admin.rolesOfClient(audience)).map(({ name }) => name));
      return PERMISSIONS.filter((permission) => !present.has(permission)).map(repair);
    },
  };
}

/**
 * The requirement that the realm has a default client scope that puts the API's audience and a user's customers into
 * tokens. Keycloak gives this scope to each client that is created later.
 */
export function defaultClientScope(admin: RealmAdmin, audience: string): Requirement<Repair> {
  const name = `client scope ${audience}`;
  const defaults = '/default-default-client-scopes';
  const wanted = clientScope(audience);
  const present = async () => (await admin.find('/client-scopes', SCOPES))?.find((scope) => scope.name === wanted.name);

  const makeDefault = async () => admin.send('PUT', `${defaults}/${(await present())?.id ?? ''}`);
  const make = async (): Promise<void> => {
    await admin.send('POST', '/client-scopes', wanted);
    await makeDefault();
  };
  const absence = { text: `+ ${name}`, problem: `There is no client scope "${audience}".`, isFatal: false, make };
  const optional = {
    text: `~ ${name}: a default`,
    problem: `The client scope "${audience}" is no default of the realm.`,
    isFatal: false,
    make: makeDefault,
  };
  return {
    name,
    changes: async () => {
      const scope = await present();
      if (!scope) return [absence];
      const path = `/client-scopes/${scope.id}/protocol-mappers/models`;
      const mappers = protocolMappers(audience).flatMap((mapper): Repair[] => {
        const existing = scope.protocolMappers?.find((one) => one.name === mapper.name);
        const defect = { problem: `The client scope "${audience}" does not put ${mapper.name} into tokens.`, isFatal: false };
        if (!existing) return [{ text: `+ ${name}: ${mapper.name}`, ...defect, make: () => admin.send('POST', path, mapper) }];
        const change = lacking(existing, mapper);
        if (Object.keys(change).length === 0) return [];
        const make = () => admin.send('PUT', `${path}/${existing.id}`, { ...existing, ...change });
        return [{ text: `~ ${name}: ${mapper.name}`, ...defect, make }];
      });
      const isDefault = (await admin.get(defaults, NAMED_ONES)).some(({ id }) => id === scope.id);
      return isDefault ? mappers : [...mappers, optional];
    },
  };
}

/**
 * The requirement that the realm's user profile has no defects. A missing realm needs no change, because the set-up
 * creates it with a right profile.
 */
export function userProfile(admin: RealmAdmin): Requirement<Repair> {
  const path = '/users/profile';
  return {
    name: 'user profile',
    changes: async () => {
      const profile = await admin.find(path, USER_PROFILE);
      if (!profile) return [];
      return profileDefects(profile).map(({ change, problem, isFatal, repair }) => ({
        text: change,
        problem,
        isFatal,
        make: async () => admin.send('PUT', path, repair(await admin.get(path, USER_PROFILE))),
      }));
    },
  };
}
