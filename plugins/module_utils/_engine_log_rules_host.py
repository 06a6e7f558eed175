# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: rules for GPU, kernels, packages, containers and disks. Data.
"""What CUDA, compilers, Python's imports, Docker and the kernel say of a failure."""

from __future__ import annotations

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_rule import (
    DECISIVE,
    FOLLOWS,
    LIKELY,
    ROOT,
    Rule,
    rules,
)

#: How messages speak of the GPU.
DEVICE = (
    r"(?:this |the current |current )?(?:GPU|device|sm_?\d|(?:compute )?capability|Blackwell|Hopper|Ampere|CUDA arch"
    r"|architecture)"
)

#: Programs that kernels are built with, not the one that a container starts.
TOOLS = r"(?:nvcc|ninja|g?cc|g\+\+|ptxas|cmake|nvidia-smi)"

HOST: tuple[Rule, ...] = (
    *rules(
        "kernel_unsupported", DECISIVE,
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU",
        r"ptxas\S* fatal|PTXASError|is not defined for option 'gpu-name'",
        r"sm_1[0-9]{2}[af]? is not (?:defined|supported)",
        r"Unsupported gpu architecture|nvcc fatal|No supported CUDA architectures found",
        r"CalledProcessError: Command .*\b(?:ptxas|nvcc|ninja|cicc)\b",
        r"ninja: build stopped|Ninja build failed|Error building extension|(?:JIT|kernel) compilation failed",
        r"kernels? (?:are |is )?(?:unavailable|not available) for",
        r"Unknown SF transformation|kernel does not support current device",
        r"Failed to initialize (?:the )?(?:cutlass|GEMM)",
        r"(?:GEMM|gemm) (?:initialization|Runner).*fail|Error Internal\b.*",
        r"cutlass.*(?:Error Internal|error:|status:)",
        r"(?:No valid|no compatible|No suitable) (?:\w+ ){1,3}backend",
        r"(?:requires?|needs?|supported (?:only )?(?:on|for))\b.{0,40}\b(?:SM_?\d{2,3}|Hopper|Blackwell)\b",
        r"cannot (?:use|run) .* on this (?:GPU|device)|MoE backend supports the deployment configuration",
        rf"(?:not supported|unsupported|not available) (?:on|for|by|in)(?: ', ')? ?{DEVICE}",
        rf"only (?:supported|available) on {DEVICE}",
        rf"(?:not supported|unsupported|only supported).* (?:on|for|by) {DEVICE}",
        r"(?:requires|needs|only supports?) (?:compute capability|sm_?\d|SM\d|Hopper|Blackwell|Ampere|a GPU)",
        r"Min(?:imum)? capability: ?\d|[Uu]nsupported (?:compute )?capability",
        r"compute capability.*not (?:supported|compatible)",
        r"Unsupported (?:GPU )?arch|Unsupported SM[ _]?(?:version|arch|\d)",
        r"not compatible with the current PyTorch installation",
        r"Could not load any common_ops library",
        r"tcgen05|TMA descriptor|out of resource: shared memory|OutOfResources|too many resources requested",
        r"LLVM ERROR|PassManager::run failed|Failed to compile (?:the )?\w*kernel|error: .*\.cu\(\d+\)",
        r"\.cu\(\d+\): error",
        r"GET was unable|no valid engine configs|CUBLAS_STATUS_(?:NOT_SUPPORTED|ARCH_MISMATCH|EXECUTION_FAILED)",
    ),
    *rules(
        "kernel_unsupported", LIKELY,
        r"'_OpNamespace' '\w+' object has no attribute|has no attribute '\w*(?:marlin|cutlass|fp4|fp8)\w*'",
        r"No valid triton configs|InductorError|BackendCompilerFailed|CompilationError|triton\.\w+\.errors",
        r"CUDA error: (?:an illegal (?:memory access|instruction)|misaligned address|device-side assert)",
        r"CUDA error: (?:invalid (?:argument|configuration)|unspecified launch)|CUDA: invalid device function",
        r"Cuda error \S+:\d+ '|(?:supported|suitable) (?:GEMM |\w+ )?kernels? for (?:arch|sm|device)",
        r"Selected backend \S+ is not valid for this configuration",
        r"FlashInfer (?:requires|is not)|flashinfer.*(?:RuntimeError|AssertionError|not supported)",
        r"assert.*(?:capability|sm_?\d)",
        start_only=True,
    ),
    *rules(
        "missing_dependency", ROOT + 5,
        r"(?:ModuleNotFoundError|ImportError): No module named '(?!vllm\._|transformers_modules)",
        r"undefined symbol|cannot open shared object file|version `?(?:GLIBC|GLIBCXX|CXXABI)\S* not found",
        r"ImportError: (?:cannot import name|\S+ (?:is not installed|requires))",
        r"ImportError: .*(?:pip install|not installed|is required|could not be found)|PackageNotFoundError",
        r"(?:Error|Exception): .*(?:Please (?:pip )?install|is not installed|Install it with|requires installation of)",
        r"(?:Error|Exception): .*(?:requires|needs) \S+ to be installed",
        r"/ld: cannot find -l",
        r"Failed to find C compiler|Python\.h: No such file|\b(?:gcc|cc|g\+\+): (?:command )?not found",
        r"(?:Could not|cannot|can't) find (?:nvcc|ninja|CUDA_HOME|the CUDA)|CUDA_HOME.*not set",
        r"(?:nvcc|ninja|cmake|ptxas): (?:command )?not found|'(?:\S*/)?(?:ninja|nvcc|ptxas|gcc|g\+\+)'$",
        r"which is less than the minimum required version|libcudart is not loaded|Ray version \S+ is required",
        r"operator torchvision::nms does not exist|numpy\.dtype size changed",
        r"A module that was compiled using NumPy 1|DistributionNotFound|VersionConflict",
        r"(?:flashinfer|transformers|tokenizers|torch|triton|huggingface.hub)\S* (?:version )?(?:\S+ )?is required",
        r"(?:flashinfer|transformers|tokenizers|torch|triton)\S* (?:version )?(?:\S+ )?(?:does not match|mismatch)",
        start_only=True,
    ),
    *rules(
        "missing_dependency", LIKELY,
        r"TypeError: .*got an unexpected keyword argument",
        r"AttributeError: '?Tokenizer\w*'?(?: object)? has no attribute",
        start_only=True,
    ),
    *rules(
        "gpu_not_visible", LIKELY,
        r"cudaGetDeviceCount\(\)|system not yet initialized|CUDA error: initialization error",
        r"cudaErrorInitializationError|CUDA-capable device\(s\) is/are busy",
    ),
    *rules(
        "gpu_not_visible", DECISIVE + 1,
        r"Failed to infer device type|No accelerator \(|No accelerator",
        r"No (?:CUDA|NVIDIA) (?:GPU|device)s? (?:are|is|was)? ?(?:available|found|detected)|No supported accelerator",
        r"could not select device driver|(?:invalid runtime name:|[Uu]nknown runtime specified) nvidia",
        r"no known GPU vendor found",
        r"nvidia-container-cli: (?!requirement).*(?:error|fail)|NVIDIA Driver was not detected",
        r"Found no NVIDIA driver|error running (?:prestart )?hook|NVIDIA Container Runtime Hook directly",
        r"no CUDA-capable device is detected|cudaErrorNoDevice|Torch not compiled with CUDA enabled",
        r"CUDA is not available",
        r"libcuda\.so\S*: cannot open|libnvidia-ml\.so\S*.*(?:not found|cannot open)",
        r"NVMLError_LibraryNotFound|NVML Shared Library Not Found",
        r"unresolvable CDI devices|CDI.*(?:nvidia|device).*(?:not found|fail)|Failed to initialize NVML",
        r"couldn't communicate with the NVIDIA driver",
        r"stat /dev/nvidia\S*: no such file|Current node has no GPU available|CUDA unknown error",
    ),
    *rules(
        "gpu_lost", DECISIVE + 4,
        r"Xid \(PCI[^)]*\): (?:79|48|62|64|74|94|95|119|120|140|143|154)\b|GPU has fallen off the bus",
        r"GPU is lost",
        r"NVMLError_GpuIsLost|Unable to determine the device handle|uncorrectable (?:ECC|NVLink)",
        r"GSP.*(?:timeout|fault)|Reset required",
        quiet=True,
    ),
    *rules("gpu_lost", LIKELY, r"NVRM: Xid|Xid \(PCI", quiet=True),
    *rules(
        "driver_too_old", DECISIVE + 2,
        r"driver version is insufficient|driver on your system is too old|cudaErrorInsufficientDriver",
        r"unsatisfied condition: cuda|nvidia-container-cli: requirement error",
        r"unsupported display driver|cudaErrorSystemDriverMismatch|Driver/library version mismatch",
        r"system has unsupported",
        r"compiled with an? unsupported toolchain|UnsupportedPtxVersion|CUDA_ERROR_UNSUPPORTED_PTX",
        r"was built for NVIDIA Driver Release .* or later|forward compatibility was attempted",
        r"requires (?:an? )?(?:NVIDIA )?driver (?:version|release)? ?\d",
        r"(?:update|upgrade) your GPU driver",
    ),
    *rules(
        "image_wrong_architecture", DECISIVE,
        r"exec format error",
        r"no matching manifest for|does not match the (?:detected|expected|specified) (?:host )?platform",
        r"no image found in (?:manifest|image index)",
        r"image (?:operating system|platform).*(?:cannot be used|mismatch)|rosetta",
        r"qemu-\S+: (?:Could not|uncaught)",
        quiet=True,
    ),
    *rules(
        "image_entrypoint", DECISIVE,
        r"executable file not found in \$PATH|cannot execute(?: binary file|: required file)",
        r"exec: \"[^\"]*\": (?!permission)",
        rf"^(?:\S*(?:bash|sh): (?:line \d+: |\d+: )?)(?!\S*{TOOLS}: )\S+: (?:command )?not found",
        r"/usr/bin/env: .*No such file|\bexec: [^\"\s]\S*: not found",
        r"exec \S+: no such file or directory|can't open file '\S+\.py'",
        r"No module named (?:vllm|sglang)(?:\.\S+)?$",
        r"unable to start container process",
        r"entrypoint\S*: (?:permission denied|no such file|not found)",
    ),
    *rules(
        "docker_permission", DECISIVE,
        r"permission denied while trying to connect to the (?:Docker|docker)",
        r"dial unix \S*docker\.sock: connect: permission denied|docker\.sock.*[Pp]ermission denied",
    ),
    *rules(
        "docker_unreachable", DECISIVE,
        r"Cannot connect to the Docker daemon at|Is the docker daemon running",
        r"dial unix \S*docker\.sock: connect: (?:no such file|connection refused)",
    ),
    *rules(
        "disk_full", ROOT + 5,
        r"No space left on device|\[Errno 28\]|ENOSPC|Disk quota exceeded|\[Errno 122\]",
        r"disk (?:is )?full",
    ),
    *rules("disk_full", ROOT + 5, r"not enough (?:free )?disk space", quiet=True),
    *rules("disk_full", FOLLOWS, r"write error|Read-only file system"),
)  # fmt: skip
