from .backend import Backend as Backend
