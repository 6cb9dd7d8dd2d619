"""Settings for all tests. (Being here also puts this folder on the import path.)"""

from hypothesis import settings

settings.register_profile("netsim", deadline=None)  # compilation makes first examples slow
settings.load_profile("netsim")
