import type { IncomingMessage } from 'node:http';
import { type ArgumentMetadata, Injectable, type PipeTransform } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, validateSync } from 'class-validator';
import type { JsonMember } from '../../../../common/json-reader.js';
import { ServiceError } from '../../../../common/service-error.js';
import { BodyMemory } from '../../../../http/body-memory.js';
import { isJsonType } from '../../../../http/content-headers.js';
import { assertJsonContent, readJson } from '../../../../http/json-body.js';
import { RequestParam } from '../../../../http/request-param.js';
import { JsonBodyLimits } from '../../../identity-management.options.js';

/**
 * Reads a JSON object into the DTO of the parameter. This class is a pipe, because the body must not be read before the
 * guards have run.
 */
@Injectable()
export class JsonBodyPipe implements PipeTransform<IncomingMessage, Promise<object>> {
  constructor(private readonly limits: JsonBodyLimits) {}

  /**
   * @throws ServiceError `payload-too-large` or `unsupported-media-type` when the headers already show it, before the
   * body is read; `invalid-request-body` when the body isn't a valid object of the DTO's type; errors of `readJson` and
   * `assertPermitted`.
   */
  async transform(request: IncomingMessage, { metatype }: ArgumentMetadata): Promise<object> {
    const { maxJsonBytes, idleTimeoutMs } = this.limits;
    const dtoType = metatype as new () => object;
    assertJsonContent(request, maxJsonBytes);
    if (!isJsonType(request)) throw new ServiceError('unsupported-media-type');
    const memory = new BodyMemory(request);
    try {
      const members = await readJson(request, { maxBytes: maxJsonBytes, idleTimeoutMs, memory }, memberNames(dtoType));
      if (!members) throw new ServiceError('invalid-request-body', 'no object');
      const values = Object.fromEntries(members);
      this.assertPermitted(request, values);
      return validated(dtoType, values);
    } finally {
      memory.release();
    }
  }

  /**
   * Checks a permission that depends on the body. Called before the members are validated, because 403 takes precedence
   * over 400.
   *
   * @throws ServiceError `unauthorized` when the permission is missing.
   */
  protected assertPermitted(_request: IncomingMessage, _members: Readonly<Record<string, unknown>>): void {
    // The guard has already checked the operation's own permission.
  }
}

const namesByType = new WeakMap<new () => object, ReadonlySet<string>>();

/** The members that the DTO has rules for. Other members of a body are ignored, and no values are built for them. */
function memberNames(dtoType: new () => object): ReadonlySet<string> {
  const known = namesByType.get(dtoType);
  if (known) return known;
  const rules = getMetadataStorage().getTargetValidationMetadatas(dtoType, '', false, false);
  const names = new Set(rules.map(({ propertyName }) => propertyName));
  namesByType.set(dtoType, names);
  return names;
}

function validated(dtoType: new () => object, values: Readonly<Record<string, JsonMember>>): object {
  // A value of an unsupported type is a symbol here. Such a value always fails validation, because every member must be
  // a text or a list of texts.
  const dto = plainToInstance(dtoType, values);
  const defects = validateSync(dto);
  if (defects.length > 0) {
    throw new ServiceError('invalid-request-body', `invalid or missing: ${defects.map(({ property }) => property).join(', ')}`);
  }
  return dto;
}

/** The validated JSON body of a request. */
export const JsonBody = (): ParameterDecorator => RequestParam(JsonBodyPipe);
