# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Stands in for a GPU, its kernels and the other ranks while vLLM builds a model that will never run a step."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

CAPABILITY = (12, 1)
NAME = "NVIDIA GB10"
MEMORY = 121 << 30
NAMESPACES = {"_C", "_moe_C", "_C_cache_ops", "_C_cuda_utils", "_C_custom_ar", "_vllm_fa2_C", "_vllm_fa3_C"}
NAMESPACES |= {"_flashmla_C", "_qutlass_C", "_C_stable_libtorch"}
EXTENSIONS = (
    *("_C_stable_libtorch", "_moe_C_stable_libtorch", "_moe_C", "_C_cuda", "_vllm_fa2_C", "_vllm_fa3_C"),
    *("vllm_flash_attn._vllm_fa2_C", "vllm_flash_attn._vllm_fa3_C"),
)


class Anything:
    """Stands for a CUDA stream, an event, a workspace: takes every call and does nothing."""

    cuda_stream = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: None


class Group:
    """A process group that only knows its size and this rank."""

    def __init__(self, size: int, rank: int) -> None:
        self.world_size, self.rank_in_group, self.rank, self.local_rank = size, rank, rank, 0
        self.ranks, self.first_rank, self.last_rank = list(range(size)), 0, size - 1
        self.is_first_rank, self.is_last_rank = rank == 0, rank == size - 1
        self.device_group = self.cpu_group = types.SimpleNamespace(
            size=lambda: size, rank=lambda: rank, group_name="group"
        )
        self.unique_name, self.use_device_communicator = "group", False
        self.device_communicator = self.mq_broadcaster = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **_kwargs: args[0] if args else None


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports of packages that only prepare inputs and need not be there."""

    packages = frozenset({"torchvision"})

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.split(".")[0] in self.packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        class Module(types.ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return type(name, (Anything,), {}) if name[0].isupper() else Anything()

        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []


def stub_torch(torch: Any) -> None:
    """CUDA as far as it is asked for when a model is built."""
    properties = types.SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=MEMORY,
        multi_processor_count=48,
        is_integrated=True,
        gcnArchName="",
        warp_size=32,
        max_threads_per_multi_processor=1536,
        shared_memory_per_block_optin=101376,
        shared_memory_per_multiprocessor=102400,
        L2_cache_size=24 << 20,
        regs_per_multiprocessor=65536,
    )
    answers: dict[str, Any] = {
        "get_device_capability": CAPABILITY,
        "get_device_name": NAME,
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "mem_get_info": (MEMORY - (11 << 30), MEMORY),
        "get_device_properties": properties,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_a, _answer=answer, **_k: _answer)
    for name in ("set_device", "synchronize", "empty_cache"):
        setattr(torch.cuda, name, lambda *_a, **_k: None)
    torch.cuda.Stream = type("Stream", (Anything,), {})
    torch.cuda.Event = type("Event", (Anything,), {})
    torch.cuda.current_stream = lambda *_a, **_k: torch.cuda.Stream()
    torch.version.cuda = torch.version.cuda or "13.0"
    torch.accelerator.current_device_index = lambda: 0
    torch.accelerator.device_count = lambda: 1


def stub_operators(torch: Any) -> None:
    """vLLM's compiled operators: there, and never called. What asks for support hears yes."""

    class Operator:
        def __init__(self, name: str) -> None:
            self.__dict__.update(__name__=name, name=name)

        def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
            return True if "supports" in self.name or "can_" in self.name else None

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return self if name == "default" else Operator(f"{self.name}.{name}")

    namespace = torch._ops._OpNamespace
    plain, register = namespace.__getattr__, torch.library.register_fake

    def attribute(self: Any, name: str) -> Any:
        try:
            return plain(self, name)
        except AttributeError:
            if self.name in NAMESPACES and not name.startswith("__") and "minimax" not in name:
                return Operator(name)
            raise

    def register_fake(operator: Any, function: Any = None, /, **kwargs: Any) -> Any:
        if isinstance(operator, str) and operator.split("::")[0] in NAMESPACES:
            return (lambda inner: inner) if function is None else function
        return register(operator, function, **kwargs) if function is not None else register(operator, **kwargs)

    namespace.__getattr__ = attribute
    torch.library.register_fake = register_fake
    for name in EXTENSIONS:
        sys.modules[f"vllm.{name}"] = types.ModuleType(f"vllm.{name}")


def stub_triton() -> None:
    try:
        import triton.runtime.driver as runtime
        from triton.backends import backends
        from triton.backends.compiler import GPUTarget
    except ImportError:
        return
    for name, backend in backends.items():
        backend.driver.is_active = staticmethod(lambda _name=name: _name == "nvidia")
    active = Anything()
    active.__dict__["get_current_target"] = lambda: GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], 32)
    getattr(runtime, "driver", runtime)._active = active


def fake_platform() -> None:
    import vllm.platforms as platforms
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Spark(NonNvmlCudaPlatform):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*CAPABILITY)

        @classmethod
        def has_device_capability(cls, capability: Any, device_id: int = 0) -> bool:
            asked = capability if isinstance(capability, tuple) else divmod(capability, 10)
            return tuple(asked) <= CAPABILITY

        @classmethod
        def get_attn_backend_cls(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().get_attn_backend_cls(*args, **kwargs)
            except ValueError:  # no kernel in this build; what is chosen has no weights
                from vllm.v1.attention.backends.registry import AttentionBackendEnum

                return AttentionBackendEnum.FLASHMLA_SPARSE.get_path()

    fixed = {
        "get_device_name": NAME,
        "get_device_total_memory": MEMORY,
        "is_fully_connected": False,
        "device_count": 1,
        "import_kernels": None,
        "num_compute_units": 48,
        "is_integrated_gpu": True,
        "check_if_supports_dtype": None,
        "get_cuda_runtime_major": 13,
    }
    for name, answer in fixed.items():
        setattr(Spark, name, classmethod(lambda _cls, *_a, _answer=answer, **_k: _answer))
    platforms._current_platform = Spark()
    platforms.vllm_version_matches_substr = lambda _part: False


def fake_groups(tp: int, rank: int, pp: int, stage: int) -> None:
    import vllm.distributed.parallel_state as state

    tensor = Group(tp, rank)
    groups = {"WORLD": Group(tp * pp, stage * tp + rank), "TP": tensor, "ETP": tensor, "EP": Group(tp, rank)}
    groups |= {"PP": Group(pp, stage), "DP": Group(1, 0), "DCP": Group(1, 0), "PCP": Group(1, 0)}
    for name, group in groups.items():
        setattr(state, f"_{name}", group)
    state._NODE_COUNT = tp


def fake_rest(torch: Any) -> None:
    import vllm.model_executor.layers.fused_moe.expert_map_manager as experts
    import vllm.model_executor.layers.sparse_attn_indexer as indexer
    import vllm.model_executor.models.registry as registry
    import vllm.utils.flashinfer as flashinfer
    import vllm.v1.worker.workspace as workspace

    experts.ExpertMapManager.get_compressed_map_string = lambda _self: ""  # for a log: needs values
    indexer.has_deep_gemm = lambda: True
    registry._run_in_subprocess = lambda function: function()
    flashinfer.has_flashinfer_sparse_mla_sm120_config = lambda *_a: True
    manager = Anything()
    manager.__dict__["get_simultaneous"] = lambda *specs, **_k: [torch.empty(s, dtype=t) for s, t in specs]
    manager.__dict__["get_persistent"] = lambda *_a, **_k: torch.empty(1)
    workspace._manager = manager


def on_meta(torch: Any) -> Any:
    """Whatever asks for the GPU gets the meta device."""
    from torch.overrides import TorchFunctionMode

    def moved(value: Any) -> Any:
        named = value.type if isinstance(value, torch.device) else value if isinstance(value, str) else ""
        return torch.device("meta") if named == "cuda" or named.startswith("cuda:") else value

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func is torch.device:
                return func(*args, **kwargs)
            if isinstance(kwargs.get("device"), int):
                kwargs["device"] = "meta"
            if "device" in kwargs:
                kwargs["device"] = moved(kwargs["device"])
            return func(*(moved(arg) for arg in args), **kwargs)

    plain_to = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        kept = [moved(arg) for arg in args if isinstance(arg, bool) or not isinstance(arg, int)]
        return plain_to(self, *kept, **({**kwargs, "device": "meta"} if "device" in kwargs else kwargs))

    torch.nn.Module.to = to
    torch.nn.Module.cuda = lambda self, *_a, **_k: self
    return Mode()
