"""Models by name, and what makes any model fit for stacked federated training."""

from unskew.models.adapt import adapt
from unskew.models.architecture import Architecture
from unskew.models.audionet import AudioNet
from unskew.models.build import build
from unskew.models.functional import context, trees
from unskew.models.harnet import HARNet
from unskew.models.layers import BatchNorm, Dropout
from unskew.models.linear import Linear
from unskew.models.mcmahan import DacaCNN, McMahanCNN, SemCNN
from unskew.models.mlp import MLP
from unskew.models.mobilenet_v2 import MobileNetV2
from unskew.models.moon import MoonCNN
from unskew.models.resnet9 import ResNet9
from unskew.models.seol_kim import SeolKimCNN
from unskew.models.small_cnn import SmallCNN
from unskew.models.split import SplitModel, Stages
from unskew.models.thesis import ThesisCifar, ThesisFashion, ThesisMnist

MODELS: dict[str, type[Architecture]] = {
    model.name: model
    for model in (
        Linear,
        MLP,
        SmallCNN,
        ThesisMnist,
        ThesisFashion,
        ThesisCifar,
        McMahanCNN,
        SemCNN,
        ResNet9,
        DacaCNN,
        SeolKimCNN,
        MobileNetV2,
        AudioNet,
        HARNet,
        MoonCNN,
    )
}

__all__ = [
    "MODELS",
    "Architecture",
    "BatchNorm",
    "Dropout",
    "SplitModel",
    "Stages",
    "adapt",
    "build",
    "context",
    "trees",
]
