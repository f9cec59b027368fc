"""In which form does an update leave the client? One line a part."""

from unskew.parts.upload.quantize import Quantize as Quantize
from unskew.parts.upload.topk import TopK as TopK
