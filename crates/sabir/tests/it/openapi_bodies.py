"""How a body is sent that is neither JSON nor text: as the bytes that were made up for it."""

import schemathesis


@schemathesis.serializer("application/x-sabir-batch")
def batch(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
