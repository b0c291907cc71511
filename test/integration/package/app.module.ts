import { Body, ConflictException, Controller, Get, Module, Post } from '@nestjs/common';
import { AuthenticationModule, IdentityManagementModule, IngestionModule } from 'load-data-service';
import { InMemoryFileStorage, InMemoryIdentityProvider, jwkOf, rsaKey, signToken } from 'load-data-service/testing';

const ISSUER = 'https://login.example';
const AUDIENCE = 'load-data-api';
const key = rsaKey();

export const storage = new InMemoryFileStorage();

export const token = (...permissions: string[]): string => {
  const exp = Math.floor(Date.now() / 1000) + 60;
  return signToken(key, { alg: 'RS256', kid: 'k' }, { iss: ISSUER, aud: AUDIENCE, sub: 'ada', exp, permissions });
};

@Controller('team')
export class TeamController {
  @Post()
  echo(@Body() body: object): object {
    return { body };
  }

  @Get('conflict')
  conflict(): never {
    throw new ConflictException('taken');
  }
}

@Module({
  imports: [
    IngestionModule.forRoot({ fileStorage: { useValue: storage } }),
    IdentityManagementModule.forRoot({
      identityProvider: { useClass: InMemoryIdentityProvider },
      authentication: AuthenticationModule.forRoot({
        issuer: ISSUER,
        audience: AUDIENCE,
        keySet: { load: () => Promise.resolve({ keys: [jwkOf(key, { kid: 'k' })] }) },
      }),
    }),
  ],
  controllers: [TeamController],
})
export class AppModule {}
