import { z } from 'zod';

const ATTRIBUTE = z.looseObject({
  name: z.string(),
  validations: z.record(z.string(), z.unknown()).nullish(),
  required: z.looseObject({ roles: z.array(z.string()).nullish(), scopes: z.array(z.string()).nullish() }).nullish(),
  permissions: z.looseObject({ view: z.array(z.string()).nullish(), edit: z.array(z.string()).nullish() }).nullish(),
});
type Attribute = z.infer<typeof ATTRIBUTE>;

/**
 * A realm's user profile (the attributes that users may have), in Keycloak's form. Members that the schema doesn't name
 * are kept.
 */
export const USER_PROFILE = z.looseObject({ attributes: z.array(ATTRIBUTE) });
export type UserProfile = z.infer<typeof USER_PROFILE>;

/** A defect of a realm's user profile: something that prevents operations of the service, or is a security risk. */
export interface ProfileDefect {
  /**
   * The text that the set-up prints for the change that repairs the defect, for example `~ user profile: lastName not
   * required`.
   */
  readonly change: string;
  /** The defect, as a sentence. */
  readonly problem: string;
  /** Whether the defect prevents the creation of users in general, not only of some. */
  readonly isFatal: boolean;
  /** Returns the given profile without the defect. */
  readonly repair: (profile: UserProfile) => UserProfile;
}

const BOTH = { view: ['admin', 'user'], edit: ['admin', 'user'] };
const ADMINISTRATORS = { view: ['admin'], edit: ['admin'] };
/** Keycloak's maximum length of a username, e-mail, first name or last name, in UTF-16 units. */
const MAX_UNITS = 255;
const LENGTH = { length: { max: MAX_UNITS } };

/** The user profile of a realm created by the set-up. */
export const NEW_USER_PROFILE: UserProfile = {
  attributes: [
    { name: 'username', displayName: '${username}', permissions: BOTH, validations: LENGTH },
    { name: 'email', displayName: '${email}', permissions: BOTH, required: { roles: ['user'] }, validations: { email: {}, ...LENGTH } },
    { name: 'firstName', displayName: '${firstName}', permissions: BOTH, validations: LENGTH },
    { name: 'lastName', displayName: '${lastName}', permissions: BOTH, validations: LENGTH },
    { name: 'customer_id', displayName: 'customer_id', permissions: ADMINISTRATORS, multivalued: true },
  ],
};

/**
 * The user attributes that must accept any text that the service sends. The number is the greatest minimum length that
 * the profile may require of the attribute. The username is the e-mail.
 */
const FREE: Readonly<Record<string, number>> = { username: 3, firstName: 1, lastName: 1 };

const LENGTH_OPTIONS = z.looseObject({ min: z.coerce.number().default(0), max: z.coerce.number().default(MAX_UNITS) });

/**
 * Finds the defects of a user profile:
 * - an attribute of `NEW_USER_PROFILE` is missing;
 * - the username, first name or last name has a rule that might refuse a text that the service sends;
 * - administrators may not edit an attribute that the service sets;
 * - an attribute that the service doesn't always set is required from administrators;
 * - the last name is required, even if only from users;
 * - users may edit their `customer_id`.
 */
export function profileDefects({ attributes }: UserProfile): ProfileDefect[] {
  const absent = NEW_USER_PROFILE.attributes.filter(({ name }) => !attributes.some((attribute) => attribute.name === name));
  return [...absent.map(absence), ...attributes.flatMap((attribute) => [...refusal(attribute), ...demand(attribute), ...rejection(attribute), ...exposure(attribute)])];
}

const absence = (attribute: Attribute): ProfileDefect => ({
  change: `+ user profile: ${attribute.name}`,
  problem: `The user profile has no attribute ${attribute.name}.`,
  // Without the attribute `firstName` in the profile, Keycloak drops the name of every user.
  isFatal: attribute.name === 'firstName',
  repair: (profile) => ({ ...profile, attributes: [...profile.attributes, attribute] }),
});

/**
 * The defect that the profile forbids administrators to edit an attribute that the service sets. The service acts as an
 * administrator, so Keycloak drops the value that the service sends.
 */
function rejection({ name, permissions }: Attribute): ProfileDefect[] {
  if (![...GIVEN, 'lastName'].includes(name) || !permissions?.edit || permissions.edit.includes('admin')) return [];
  return [
    {
      change: `~ user profile: ${name} editable by administrators`,
      problem: `The user profile does not let administrators edit ${name}.`,
      isFatal: name !== 'lastName',
      repair: replacing(name, (attribute) => ({
        ...attribute,
        permissions: { ...attribute.permissions, edit: [...(attribute.permissions?.edit ?? []), 'admin'] },
      })),
    },
  ];
}

function refusal({ name, validations }: Attribute): ProfileDefect[] {
  const leastLength = FREE[name];
  if (leastLength === undefined) return [];
  const refusing = Object.entries(validations ?? {}).filter(([validator, options]) => !isHarmless(validator, options, leastLength));
  if (refusing.length === 0) return [];
  const validators = refusing.map(([validator]) => validator).join(', ');
  return [
    {
      change: `~ user profile: ${name} without ${validators}`,
      problem: `The user profile refuses values of ${name} (${validators}).`,
      isFatal: false,
      repair: replacing(name, (attribute) => {
        const harmless = Object.entries(attribute.validations ?? {}).filter(([validator, options]) => isHarmless(validator, options, leastLength));
        return { ...attribute, validations: { ...LENGTH, ...Object.fromEntries(harmless) } };
      }),
    },
  ];
}

function isHarmless(validator: string, options: unknown, leastLength: number): boolean {
  const { data: length } = LENGTH_OPTIONS.safeParse(options ?? {});
  return validator === 'length' && length !== undefined && length.min <= leastLength && length.max >= MAX_UNITS;
}

/** The attributes that the service always sets when it creates a user. */
const GIVEN = ['username', 'email', 'firstName'];

function demand({ name, required }: Attribute): ProfileDefect[] {
  if (!required || GIVEN.includes(name)) return [];
  const { roles, scopes } = required;
  // If the profile requires the attribute from administrators, Keycloak refuses new users without it, because the
  // service acts as an administrator. Beside the attributes in `GIVEN`, the service sets only the last name, and only
  // for a long display name.
  const isFatal = (!roles?.length && !scopes?.length) || roles?.includes('admin') === true;
  // If the profile requires the attribute only from users themselves, that is no defect. The exception is the last
  // name, because users of the service often have none.
  if (!isFatal && name !== 'lastName') return [];
  return [
    {
      change: `~ user profile: ${name} not required`,
      problem: `The user profile requires ${name === 'lastName' ? 'a last name' : name}.`,
      isFatal,
      repair: replacing(name, ({ required: _, ...attribute }) => attribute),
    },
  ];
}

function exposure({ name, permissions }: Attribute): ProfileDefect[] {
  if (name !== 'customer_id' || permissions?.edit?.includes('user') !== true) return [];
  return [
    {
      change: '~ user profile: customer_id not editable by users',
      problem: 'The user profile lets users edit their customer_id.',
      isFatal: false,
      repair: replacing(name, (attribute) => ({ ...attribute, permissions: { ...attribute.permissions, edit: ['admin'] } })),
    },
  ];
}

const replacing =
  (name: string, change: (attribute: Attribute) => Attribute) =>
  (profile: UserProfile): UserProfile => ({
    ...profile,
    attributes: profile.attributes.map((attribute) => (attribute.name === name ? change(attribute) : attribute)),
  });
