import type { IncomingMessage } from 'node:http';
import { type ArgumentMetadata, Injectable, type PipeTransform } from '@nestjs/common';
import { plainToInstance } from 'class-transformer';
import { getMetadataStorage, validateSync } from 'class-validator';
import { ServiceError } from '../../../../common/service-error.js';
import { readJson } from '../../../../http/json-body.js';
import { RequestParam } from '../../../../http/request-param.js';
import { JsonLimits } from '../../../identity-management.options.js';

/** Reads a JSON object into the DTO of the parameter. A pipe, because a body must not be read before the guards. */
@Injectable()
export class JsonBodyPipe implements PipeTransform<IncomingMessage, Promise<object>> {
  constructor(private readonly limits: JsonLimits) {}

  /** @throws ServiceError `invalid-request-body` when it is no such object; what `readJson` and `assertPermitted` throw. */
  async transform(request: IncomingMessage, { metatype }: ArgumentMetadata): Promise<object> {
    const { maxJsonBytes, idleTimeoutMs } = this.limits;
    const body = await readJson(request, { maxBytes: maxJsonBytes, idleTimeoutMs });
    if (typeof body !== 'object' || body === null || Array.isArray(body)) {
      throw new ServiceError('invalid-request-body', 'not an object');
    }
    this.assertPermitted(request, body as Record<string, unknown>);
    const dto = plainToInstance(metatype as new () => object, knownMembers(metatype as new () => object, body));
    const defects = validateSync(dto);
    if (defects.length > 0) {
      throw new ServiceError('invalid-request-body', defects.map(({ property }) => property).join(', '));
    }
    return dto;
  }

  /**
   * For a permission that depends on the body. Called before the members are checked: 403 comes before 400.
   *
   * @throws ServiceError `unauthorized`
   */
  protected assertPermitted(_request: IncomingMessage, _members: Readonly<Record<string, unknown>>): void {
    // The guard has checked the operation's own permission.
  }
}

/** The members that the DTO has rules for; what else a client sends is ignored, and costs nothing. */
function knownMembers(dto: new () => object, body: object): object {
  const rules = getMetadataStorage().getTargetValidationMetadatas(dto, '', false, false);
  const names = new Set(rules.map(({ propertyName }) => propertyName));
  const members = [...names].filter((name) => Object.hasOwn(body, name));
  return Object.fromEntries(members.map((name) => [name, flat((body as Record<string, unknown>)[name])]));
}

/** No member of ours is deeper than a list of texts, and what is deeper must not cost a stack. */
function flat(value: unknown): unknown {
  const isScalar = (item: unknown): boolean => typeof item !== 'object' || item === null;
  return isScalar(value) || (Array.isArray(value) && value.every(isScalar)) ? value : null;
}

/** The validated JSON body of a request. */
export const JsonBody = (): ParameterDecorator => RequestParam(JsonBodyPipe);
