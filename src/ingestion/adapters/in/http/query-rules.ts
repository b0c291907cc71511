import { ValidateBy, validateSync } from 'class-validator';
import { ServiceError } from '../../../../common/service-error.js';

/** A rule for a query parameter, by a predicate of the domain. */
export const Satisfies = (name: string, validate: (value: unknown) => boolean): PropertyDecorator =>
  ValidateBy({ name, validator: { validate } });

/**
 * The query itself, if its parameters follow the rules of its class.
 *
 * @throws ServiceError `invalid-query-parameter`, which names the parameters that don't.
 */
export function validQuery<Query extends object>(query: Query): Query {
  const defects = validateSync(query);
  if (defects.length > 0) {
    throw new ServiceError('invalid-query-parameter', `invalid, missing or repeated: ${defects.map(({ property }) => property).join(', ')}`);
  }
  return query;
}
