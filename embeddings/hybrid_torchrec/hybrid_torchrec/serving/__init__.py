"""From training to serving in seconds: a publisher beside the trainer, a consumer in the server."""

from hybrid_torchrec.serving.client import Client
from hybrid_torchrec.serving.consumer import Consumer
from hybrid_torchrec.serving.publisher import Publisher
from hybrid_torchrec.serving.record import Changes, Record

__all__ = ["Changes", "Client", "Consumer", "Publisher", "Record"]
