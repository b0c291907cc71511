const OWN_FAMILIES = /^(?:AUTH0|EMBEDDED|EVENTS_WEBHOOK|INGESTION|KEYCLOAK|OIDC|RATE_LIMIT|REQUEST|S3|SHUTDOWN|SWAGGER_UI)_/;
/** Variables that Kubernetes and Docker set for each neighbouring service, such as one called `keycloak`. */
const OF_NEIGHBOURS = /_(?:SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_\d+_\w+)$/;
const MAX_EDITS = 2;
/** The least length of a name that counts as misspelled: shorter ones, such as HOST and HOME, are alike by chance. */
const MIN_LENGTH = 6;

export interface OtherReaders {
  readonly declared: readonly string[];
  readonly readUndeclared: boolean;
}

export const NO_OTHER_READERS: OtherReaders = { declared: [], readUndeclared: false };

/**
 * Describes, one line each, the variables with unknown names that are probably meant for this service or for an adapter
 * of a team. The lines don't contain values.
 */
export function unknownVariables(names: readonly string[], ownNames: readonly string[], { declared, readUndeclared }: OtherReaders = NO_OTHER_READERS): string[] {
  const known = [...ownNames, ...declared];
  const prefixes = declared.map((name) => name.slice(0, name.lastIndexOf('_') + 1)).filter((prefix) => prefix !== '');
  return names
    .filter((name) => !known.includes(name) && !OF_NEIGHBOURS.test(name))
    .flatMap((name) => {
      const isOwn = OWN_FAMILIES.test(name);
      const shared = prefixes.filter((prefix) => name.startsWith(prefix));
      const nearest = nearestOf(name, known, isOwn || shared.length > 0 ? Infinity : MAX_EDITS + 1);
      const isSlip = nearest.edits <= MAX_EDITS && name.length >= MIN_LENGTH;
      // Other programs may read variables with the prefix of a declared name, so the prefix alone isn't enough.
      const isLikeDeclared = shared.some((prefix) => nearest.edits <= (name.length - prefix.length) / 2);
      if (!isSlip && !isLikeDeclared && !isOwn) return [];
      const advice = nearest.edits <= name.length / 2 ? `: did you mean ${nearest.name}?` : '';
      if (readUndeclared) return advice ? [`${name}: not a variable of the service${advice}`] : [];
      return [`${name}: unknown variable, without effect${advice}`];
    });
}

function nearestOf(name: string, known: readonly string[], limit: number): { name: string; edits: number } {
  let best = { name: '', edits: limit };
  for (const candidate of known) {
    // A candidate is skipped if the lengths differ too much: there are at least as many edits as the lengths differ.
    if (Math.abs(candidate.length - name.length) >= best.edits) continue;
    const edits = editsBetween(name, candidate);
    if (edits < best.edits) best = { name: candidate, edits };
  }
  return best;
}

/** The Levenshtein distance of two names. */
function editsBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, character] of Array.from(one).entries()) {
    const next = [index + 1];
    for (const [at, opposite] of Array.from(other).entries()) {
      const replaced = (row[at] ?? 0) + (character === opposite ? 0 : 1);
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
