"""Every model by name. A new one is one file and one line here."""

from __future__ import annotations

from unskew.models.architecture import Architecture
from unskew.models.audionet import AudioNet
from unskew.models.harnet import HARNet
from unskew.models.lenet import LeNet
from unskew.models.linear import Linear
from unskew.models.mcmahan import DacaCNN, McMahanCNN, SemCNN
from unskew.models.mlp import MLP
from unskew.models.mobilenet_v2 import MobileNetV2
from unskew.models.moon import MoonCNN
from unskew.models.resnet9 import ResNet9
from unskew.models.seol_kim import SeolKimCNN
from unskew.models.small_cnn import SmallCNN
from unskew.models.thesis import ThesisCifar, ThesisFashion, ThesisMnist
from unskew.models.vgg import VGG11

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
        LeNet,
        VGG11,
    )
}
