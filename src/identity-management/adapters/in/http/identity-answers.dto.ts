import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { SuccessBody } from '../../../../http/api-bodies.js';

export const USER_ID = { type: String, example: 'embedded|0198c5a0-5b1e-7c7e-8d55-0c1f5a3e7a10' } as const;
export const ROLE_ID = { type: String, example: 'role_0198c5a05b1e7c7e8d550c1f5a3e7a10' } as const;

@ApiSchema({ name: 'Role' })
class Role {
  @ApiProperty({ ...ROLE_ID, description: 'Opaque; made by the service' })
  readonly role_id!: string;

  @ApiProperty({ type: String, example: 'Load data manager' })
  readonly name!: string;
}

@ApiSchema({ name: 'RoleList' })
export class RoleList {
  @ApiProperty({ type: [Role] })
  readonly roles!: Role[];
}

@ApiSchema({ name: 'User' })
class User {
  @ApiProperty({ ...USER_ID, description: '`<provider_prefix>|<opaque_id>`; made by the service' })
  readonly user_id!: string;

  @ApiProperty({ type: String, description: 'The e-mail of a user without a name', example: 'Grid operator' })
  readonly name!: string;

  @ApiProperty({ type: String, description: 'Empty for a user without one', example: 'operator@grid.example' })
  readonly email!: string;
}

@ApiSchema({ name: 'UserList' })
export class UserList {
  @ApiProperty({ type: [User] })
  readonly users!: User[];
}

@ApiSchema({ name: 'RoleCreated' })
export class RoleCreated extends SuccessBody {
  @ApiProperty(ROLE_ID)
  readonly role_id!: string;
}

@ApiSchema({ name: 'UserCreated' })
export class UserCreated extends SuccessBody {
  @ApiProperty(USER_ID)
  readonly user_id!: string;
}
