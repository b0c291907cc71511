import { z } from 'zod';

const ATTRIBUTE = z.looseObject({
  name: z.string(),
  validations: z.record(z.string(), z.unknown()).nullish(),
  required: z.looseObject({ roles: z.array(z.string()).nullish(), scopes: z.array(z.string()).nullish() }).nullish(),
  permissions: z.looseObject({ view: z.array(z.string()).nullish(), edit: z.array(z.string()).nullish() }).nullish(),
});
type Attribute = z.infer<typeof ATTRIBUTE>;

/** A realm's user profile in Keycloak's form. Members that the schema doesn't name are kept. */
export const USER_PROFILE = z.looseObject({ attributes: z.array(ATTRIBUTE) });
export type UserProfile = z.infer<typeof USER_PROFILE>;

export interface ProfileDefect {
  readonly change: string;
  readonly problem: string;
  /** Whether the defect prevents the creation of users in general, not only of some. */
  readonly isFatal: boolean;
  readonly repair: (profile: UserProfile) => UserProfile;
}

const BOTH = { view: ['admin', 'user'], edit: ['admin', 'user'] };
const ADMINISTRATORS = { view: ['admin'], edit: ['admin'] };
/** Keycloak's limit for a username, e-mail, first name or last name, in UTF-16 units. */
const MAX_UNITS = 255;
const LENGTH = { length: { max: MAX_UNITS } };

export const NEW_USER_PROFILE: UserProfile = {
  attributes: [
    { name: 'username', displayName: '${username}', permissions: BOTH, validations: LENGTH },
    { name: 'email', displayName: '${email}', permissions: BOTH, required: { roles: ['user'] }, validations: { email: {}, ...LENGTH } },
    { name: 'firstName', displayName: '${firstName}', permissions: BOTH, validations: LENGTH },
    { name: 'lastName', displayName: '${lastName}', permissions: BOTH, validations: LENGTH },
    { name: 'customer_id', displayName: 'customer_id', permissions: ADMINISTRATORS, multivalued: true },
  ],
};

/** Attributes that must accept any text of the service, with the greatest minimum length that a profile may set. */
const FREE: Readonly<Record<string, number>> = { username: 3, firstName: 1, lastName: 1 };

const LENGTH_OPTIONS = z.looseObject({ min: z.coerce.number().default(0), max: z.coerce.number().default(MAX_UNITS) });

/**
 * Finds the defects of a user profile: missing attributes, rules that might refuse or drop what the service sends,
 * required attributes that it doesn't always send, and a `customer_id` that users may edit.
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

/** The service acts as an administrator, so Keycloak drops values that administrators may not edit. */
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

const GIVEN = ['username', 'email', 'firstName'];

function demand({ name, required }: Attribute): ProfileDefect[] {
  if (!required || GIVEN.includes(name)) return [];
  const { roles, scopes } = required;
  // The service acts as an administrator, so Keycloak refuses its new users if they don't have an attribute that is
  // required from administrators.
  const isFatal = (!roles?.length && !scopes?.length) || roles?.includes('admin') === true;
  // A requirement for users themselves is no defect, except of the last name, which the service's users often don't
  // have.
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
