import { describe, expect, it } from 'vitest';
import { NEW_USER_PROFILE, profileDefects, type UserProfile } from './user-profile.js';

const FOREIGN: UserProfile = {
  unmanagedAttributePolicy: 'ADMIN_EDIT',
  groups: [{ name: 'contact' }],
  attributes: [
    { name: 'username', validations: { 'length': { min: 3, max: 255 }, 'up-username-not-idn-homograph': {} } },
    { name: 'email', required: { roles: ['user'] }, validations: { email: {} } },
    { name: 'firstName', group: 'contact', required: { roles: ['user'] }, validations: { length: { min: '2', max: '30' } } },
    { name: 'lastName', required: {}, validations: { pattern: { pattern: '^[a-z]*$' } } },
    { name: 'customer_id', permissions: { view: ['admin', 'user'], edit: ['admin', 'user'] } },
    { name: 'phone', required: { roles: ['user'] }, permissions: { view: ['admin'], edit: ['user'] }, validations: { length: { max: 20 } } },
  ],
};

const repaired = (profile: UserProfile): UserProfile => profileDefects(profile).reduce((so, { repair }) => repair(so), profile);

describe('a user profile', () => {
  it('for a new realm has no defects', () => {
    expect(profileDefects(NEW_USER_PROFILE)).toEqual([]);
  });

  it.each([
    ['always', {}, true],
    ['from administrators', { roles: ['admin', 'user'] }, true],
    ['from users', { roles: ['user'] }, false],
    ['from clients with a scope', { scopes: ['profile'] }, false],
  ])('that requires a last name %s has a defect', (_, required, isFatal) => {
    const attributes = NEW_USER_PROFILE.attributes.map((attribute) => (attribute.name === 'lastName' ? { ...attribute, required } : attribute));
    expect(profileDefects({ attributes })).toEqual([expect.objectContaining({ problem: 'The user profile requires a last name.', isFatal })]);
  });

  it.each([
    ['username', true],
    ['email', true],
    ['firstName', true],
    ['lastName', false],
  ])('that prevents administrators from editing %s is repaired', (name, isFatal) => {
    const permissions = { view: ['admin'], edit: ['user'] };
    const profile = { attributes: NEW_USER_PROFILE.attributes.map((attribute) => (attribute.name === name ? { ...attribute, permissions } : attribute)) };
    expect(profileDefects(profile)).toEqual([expect.objectContaining({ problem: `The user profile does not let administrators edit ${name}.`, isFatal })]);
    expect(repaired(profile).attributes).toContainEqual(expect.objectContaining({ name, permissions: { view: ['admin'], edit: ['user', 'admin'] } }));
  });

  it.each([
    ['firstName', true],
    ['lastName', false],
  ])('without %s would lose names', (name, isFatal) => {
    const profile = { attributes: NEW_USER_PROFILE.attributes.filter((attribute) => attribute.name !== name) };
    expect(profileDefects(profile)).toEqual([expect.objectContaining({ problem: `The user profile has no attribute ${name}.`, isFatal })]);
  });

  it('of others has no defects after its repairs, which change nothing else', () => {
    expect(profileDefects(FOREIGN).map(({ change }) => change)).toEqual([
      '~ user profile: username without up-username-not-idn-homograph',
      '~ user profile: firstName without length',
      '~ user profile: lastName without pattern',
      '~ user profile: lastName not required',
      '~ user profile: customer_id not editable by users',
    ]);
    expect(repaired(FOREIGN)).toEqual({
      ...FOREIGN,
      attributes: [
        { name: 'username', validations: { length: { min: 3, max: 255 } } },
        { name: 'email', required: { roles: ['user'] }, validations: { email: {} } },
        { name: 'firstName', group: 'contact', required: { roles: ['user'] }, validations: { length: { max: 255 } } },
        { name: 'lastName', validations: { length: { max: 255 } } },
        { name: 'customer_id', permissions: { view: ['admin', 'user'], edit: ['admin'] } },
        FOREIGN.attributes[5],
      ],
    });
    expect(profileDefects(repaired(FOREIGN))).toEqual([]);
  });

  it('without the attributes of the service gets them', () => {
    const { attributes } = repaired({ attributes: [] });
    expect(attributes.map(({ name }) => name)).toEqual(['username', 'email', 'firstName', 'lastName', 'customer_id']);
  });
});
