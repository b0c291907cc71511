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
 * Reads JSON request bodies into DTOs. Handlers call `read`, instead of declaring a DTO parameter, so that a body is
 * read after the guards have run and doesn't pass through global pipes.
 */
@Injectable()
export class JsonBodyReader {
  constructor(private readonly limits: JsonBodyLimits) {}

  /**
   * @param assertPermitted checks a permission that depends on the body. Called before the members are validated,
   * because 403 takes precedence over 400.
   * @throws ServiceError `payload-too-large` or `unsupported-media-type` by the headers, before the body is read;
   * `invalid-request-body` when the body isn't a valid object of the DTO's type; errors of `readJson` and
   * `assertPermitted`.
   */
  async read<Dto extends object>(request: IncomingMessage, type: DtoType<Dto>, assertPermitted?: (members: Members) => void): Promise<Dto> {
    const { maxJsonBytes, idleTimeoutMs } = this.limits;
    assertJsonContent(request, maxJsonBytes);
    if (!isJsonType(request)) throw new ServiceError('unsupported-media-type');
    const members = await readJson(request, { maxBytes: maxJsonBytes, idleTimeoutMs }, namesByType.get(type) ?? memberNames(type));
    if (!members) throw new ServiceError('invalid-request-body', 'no object');
    const values = Object.fromEntries(members);
    assertPermitted?.(values);
    // The symbol `OTHER_VALUE`, by which `readJson` replaces unsupported values, fails the rules of every member.
    const dto = plainToInstance(type, values);
    const defects = validateSync(dto);
    if (defects.length > 0) {
      throw new ServiceError('invalid-request-body', `invalid or missing: ${defects.map(({ property }) => property).join(', ')}`);
    }
    return dto;
  }
}

const namesByType = new WeakMap<DtoType<object>, ReadonlySet<string>>();

function memberNames(type: DtoType<object>): ReadonlySet<string> {
  const rules = getMetadataStorage().getTargetValidationMetadatas(type, '', false, false);
  const names = new Set(rules.map(({ propertyName }) => propertyName));
  namesByType.set(type, names);
  return names;
}
