import { ApiProperty, ApiSchema } from '@nestjs/swagger';

/** The body of an error answer (service interface, part 7), as the OpenAPI document describes it. */
@ApiSchema({ name: 'Error', description: 'The body of every error answer. Each status lists its texts.' })
export class ErrorBody {
  @ApiProperty({ type: String, description: 'The fixed text of the error', example: 'Internal server error.' })
  readonly error!: string;
}

/** The body of a successful command (service interface, part 4), as the OpenAPI document describes it. */
@ApiSchema({ name: 'Success', description: 'The body of a successful command.' })
export class SuccessBody {
  @ApiProperty({ type: String, enum: ['success'] })
  readonly status!: 'success';

  @ApiProperty({ type: String, description: 'The fixed text of the operation', example: 'Data uploaded successfully.' })
  readonly message!: string;
}
