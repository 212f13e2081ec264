"""The public names, and where each is defined."""

from tulving.bootstrap import get_embedding_engine as get_embedding_engine
from tulving.bootstrap import open_administration as open_administration
from tulving.bootstrap import open_memory as open_memory
from tulving.domain.events import Event as Event
from tulving.domain.messages import Message as Message
from tulving.domain.model import Episode as Episode
from tulving.domain.model import Fact as Fact
from tulving.domain.model import Found as Found
from tulving.domain.model import Hit as Hit
from tulving.domain.model import Link as Link
from tulving.domain.model import NewEpisode as NewEpisode
from tulving.domain.model import NewFact as NewFact
from tulving.domain.model import NewRule as NewRule
from tulving.domain.model import Page as Page
from tulving.domain.model import Rule as Rule
from tulving.domain.model import Stored as Stored
from tulving.domain.scope import Caller as Caller
from tulving.errors import ConfigError as ConfigError
from tulving.errors import DamagedStore as DamagedStore
from tulving.errors import DiskFull as DiskFull
from tulving.errors import EmbedderMismatch as EmbedderMismatch
from tulving.errors import EmbedderUnavailable as EmbedderUnavailable
from tulving.errors import IntegrityError as IntegrityError
from tulving.errors import InvalidInput as InvalidInput
from tulving.errors import ModelUnavailable as ModelUnavailable
from tulving.errors import NotFound as NotFound
from tulving.errors import RerankerUnavailable as RerankerUnavailable
from tulving.errors import SchemaTooNew as SchemaTooNew
from tulving.errors import SpendLimitReached as SpendLimitReached
from tulving.errors import StoreBusy as StoreBusy
from tulving.errors import StoreUnavailable as StoreUnavailable
from tulving.errors import TulvingError as TulvingError
from tulving.errors import UnusableAnswer as UnusableAnswer
from tulving.errors import WeightsError as WeightsError
from tulving.interfaces.blocking import open_memory_sync as open_memory_sync
from tulving.interfaces.host_module import MemoryModule as MemoryModule
from tulving.interfaces.host_module import Module as Module
from tulving.interfaces.tool_text import TextAnswer as TextAnswer
from tulving.interfaces.tool_text import ToolRunner as ToolRunner
from tulving.services.administration import Administration as Administration
from tulving.services.memory import Memory as Memory
from tulving.settings import MemoryModuleConfig as MemoryModuleConfig
from tulving.settings import PostgresConfig as PostgresConfig
from tulving.settings import RetrievalConfig as RetrievalConfig

__version__: str
