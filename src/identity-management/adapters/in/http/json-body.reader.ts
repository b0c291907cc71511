import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, validateSync } from 'class-validator';
import type { JsonMember } from '../../../../common/json-members.js';
import { ServiceError } from '../../../../common/service-error.js';
import { isJsonType } from '../../../../http/request-head.js';
import { assertJsonContent, readJson } from '../../../../http/json-body.js';
import { JsonBodyLimits } from '../../../identity-management.options.js';

type DtoType<Dto extends object> = new () => Dto;
type Members = Readonly<Record<string, JsonMember>>;

/**
 * Reads JSON request bodies into DTOs. Request handlers call this reader, and don't declare the DTO as a parameter. So
 * a body is read only after the guards have run, and the DTO doesn't pass through the application's global pipes.
 */
@Injectable()
export class JsonBodyReader {
  constructor(private readonly limits: JsonBodyLimits) {}

  /**
   * Reads the request's body into a DTO of the given type.
   *
   * @param assertPermitted checks a permission that depends on the body. Called before the body's members are
   * validated, because 403 takes precedence over 400.
   * @throws ServiceError `payload-too-large` or `unsupported-media-type` when the headers show that the body is too
   * large, isn't JSON or has an unknown Content-Encoding, before the body is read; `invalid-request-body` when the body
   * isn't a valid object of the DTO's type; errors of `readJson` and `assertPermitted`.
   */
  async read<Dto extends object>(request: IncomingMessage, type: DtoType<Dto>, assertPermitted?: (members: Members) => void): Promise<Dto> {
    const { maxJsonBytes, idleTimeoutMs } = this.limits;
    assertJsonContent(request, maxJsonBytes);
    if (!isJsonType(request)) throw new ServiceError('unsupported-media-type');
    const members = await readJson(request, { maxBytes: maxJsonBytes, idleTimeoutMs }, namesByType.get(type) ?? memberNames(type));
    if (!members) throw new ServiceError('invalid-request-body', 'no object');
    const values = Object.fromEntries(members);
    assertPermitted?.(values);
    // In `values`, the symbol `OTHER_VALUE` replaces any value that is neither a text, nor null, nor a list of at most
    // 10,000 distinct texts. The symbol always fails validation, because each member of a DTO must be a text or a list.
    const dto = plainToInstance(type, values);
    const defects = validateSync(dto);
    if (defects.length > 0) {
      throw new ServiceError('invalid-request-body', `invalid or missing: ${defects.map(({ property }) => property).join(', ')}`);
    }
    return dto;
  }
}

/** The names of the members that each DTO has rules for. A body's other members are ignored. */
const namesByType = new WeakMap<DtoType<object>, ReadonlySet<string>>();

/** Finds the names of the members that the DTO has rules for, and keeps them in `namesByType`. */
function memberNames(type: DtoType<object>): ReadonlySet<string> {
  const rules = getMetadataStorage().getTargetValidationMetadatas(type, '', false, false);
  const names = new Set(rules.map(({ propertyName }) => propertyName));
  namesByType.set(type, names);
  return names;
}
