import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ArrayNotEmpty, IsArray, isEmail, IsNotEmpty, IsString, ValidateBy, ValidateIf } from 'class-validator';
import { MAX_PERMISSION_LENGTH, MAX_PERMISSIONS, MAX_ROLE_NAME_LENGTH, PERMISSION_PATTERN } from '../../../domain/role.js';
import { ROLE_ID, USER_ID } from './identity-answers.dto.js';
import { isEmailText, MAX_EMAIL_LENGTH, MAX_USER_NAME_LENGTH } from '../../../domain/user.js';

/** Requires an e-mail address. `isEmailText` comes first: `isEmail` throws for malformed Unicode, and can be slow. */
const IsEmailAddress = (): PropertyDecorator =>
  ValidateBy({
    name: 'isEmailAddress',
    validator: { validate: (value) => isEmailText(value) && isEmail(value) },
  });

// No rule here checks the items of a list, because `readJson` replaces a list with an item that isn't a text by
// `OTHER_VALUE`, which isn't a list. Most rules for values are in `domain/`.

/** The body of a request to assign a role. */
@ApiSchema({ name: 'RoleAssignment' })
export class AssignRoleDto {
  @ApiProperty(USER_ID)
  @IsString()
  @IsNotEmpty()
  declare readonly user_id: string;

  @ApiProperty(ROLE_ID)
  @IsString()
  @IsNotEmpty()
  declare readonly role_id: string;
}

/** The body of a request to create a role. */
@ApiSchema({ name: 'NewRole' })
export class CreateRoleDto {
  @ApiProperty({ type: String, minLength: 1, maxLength: MAX_ROLE_NAME_LENGTH, example: 'Load data manager' })
  @IsString()
  declare readonly role_name: string;

  @ApiProperty({
    type: 'array',
    minItems: 1,
    description: `At most ${MAX_PERMISSIONS}, of which a repeated one counts once`,
    items: { type: 'string', pattern: PERMISSION_PATTERN.source, maxLength: MAX_PERMISSION_LENGTH },
    example: ['upload:historical', 'upload:nowcast'],
  })
  @IsArray()
  @ArrayNotEmpty()
  declare readonly permissions: string[];
}

/** The body of a request to create a user. */
@ApiSchema({ name: 'NewUser' })
export class CreateUserDto {
  @ApiProperty({ type: String, format: 'email', maxLength: MAX_EMAIL_LENGTH, example: 'operator@grid.example' })
  @IsEmailAddress()
  declare readonly email: string;

  @ApiProperty({
    type: String,
    required: false,
    minLength: 1,
    maxLength: MAX_USER_NAME_LENGTH,
    description: 'Default: the e-mail',
    example: 'Grid operator',
  })
  @ValidateIf(({ name }: CreateUserDto) => name !== undefined)
  @IsString()
  declare readonly name?: string;

  @ApiProperty({ type: 'array', items: { type: 'string' }, description: 'Ids of roles; may be empty. Assigning any role requires the permission `assign:roles`.', example: [] })
  @IsArray()
  declare readonly roles: string[];
}

/** The body of a request to update a user. */
@ApiSchema({ name: 'UserUpdate' })
export class UpdateUserDto {
  @ApiProperty(USER_ID)
  @IsString()
  @IsNotEmpty()
  declare readonly user_id: string;

  @ApiProperty({ type: String, minLength: 1, maxLength: MAX_USER_NAME_LENGTH, example: 'Grid operator, night shift' })
  @IsString()
  declare readonly new_name: string;
}
